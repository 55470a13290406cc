/* ns3.cpp - the all-to-allv of a list of messages in ns-3, packet by packet, for comparison: every endpoint has a
 * point-to-point link to one switch that forwards by a tag and has room for everything.  No transport: an endpoint sends
 * its packets in order as fast as its link takes them.
 *
 * ns3 LIST RATE_GBS LATENCY_US PACKET_BYTES: prints the simulated time in microseconds. */
#include <ns3/core-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

using namespace ns3;

/* Where a packet goes. */
class TargetTag : public Tag {
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("TargetTag").SetParent<Tag>().AddConstructor<TargetTag>();
        return id;
    }
    TypeId GetInstanceTypeId() const override { return GetTypeId(); }
    uint32_t GetSerializedSize() const override { return 4; }
    void Serialize(TagBuffer b) const override { b.WriteU32(target); }
    void Deserialize(TagBuffer b) override { target = b.ReadU32(); }
    void Print(std::ostream &out) const override { out << target; }
    uint32_t target = 0;
};

struct message { uint32_t target; uint64_t bytes; };

struct endpoint {
    Ptr<PointToPointNetDevice> nic, port;       /* of the endpoint, and of the switch towards it */
    std::vector<message> messages;
    size_t next = 0;
    uint64_t sent = 0;                          /* of the next message */
};

static std::vector<endpoint> endpoints;
static uint32_t packet_bytes;
static Time last;

/* One packet more; false when all are sent. */
static bool packet_send(endpoint &e)
{
    while (e.next < e.messages.size() && e.sent == e.messages[e.next].bytes) e.next++, e.sent = 0;
    if (e.next == e.messages.size()) return false;
    const message &m = e.messages[e.next];
    const uint32_t size = static_cast<uint32_t>(std::min<uint64_t>(packet_bytes, m.bytes - e.sent));
    Ptr<Packet> packet = Create<Packet>(size);
    TargetTag tag;
    tag.target = m.target;
    packet->AddPacketTag(tag);
    e.sent += size;
    e.nic->Send(packet, e.port->GetAddress(), 0x0800);
    return true;
}

static void packet_sent(uint32_t source, Ptr<const Packet>) { packet_send(endpoints[source]); }

static bool switch_received(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address &)
{
    TargetTag tag;
    packet->PeekPacketTag(tag);
    endpoint &e = endpoints[tag.target];
    e.port->Send(packet->Copy(), e.nic->GetAddress(), 0x0800);
    return true;
}

static bool endpoint_received(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address &)
{
    last = Simulator::Now();
    return true;
}

static bool list_read(const char *path)
{
    std::ifstream in(path);
    size_t ranks = 0, count = 0, source = 0;
    message m{};
    in >> ranks >> count;
    endpoints.resize(ranks);
    while (in >> source >> m.target >> m.bytes) endpoints.at(source).messages.push_back(m);
    return ranks > 0;
}

int main(int argc, char **argv)
{
    if (argc != 5 || !list_read(argv[1])) {
        std::fprintf(stderr, "ns3: LIST RATE_GBS LATENCY_US PACKET_BYTES\n");
        return 2;
    }
    Time::SetResolution(Time::PS);
    packet_bytes = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10));
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(std::atof(argv[2]) * 8e9))));
    link.SetDeviceAttribute("Mtu", UintegerValue(packet_bytes));
    link.SetChannelAttribute("Delay", TimeValue(PicoSeconds(static_cast<int64_t>(std::atof(argv[3]) * 5e5))));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000000p"));
    Ptr<Node> center = CreateObject<Node>();
    for (uint32_t i = 0; i < endpoints.size(); i++) {
        NetDeviceContainer pair = link.Install(CreateObject<Node>(), center);
        endpoints[i].nic = DynamicCast<PointToPointNetDevice>(pair.Get(0));
        endpoints[i].port = DynamicCast<PointToPointNetDevice>(pair.Get(1));
        endpoints[i].nic->SetReceiveCallback(MakeCallback(&endpoint_received));
        endpoints[i].port->SetReceiveCallback(MakeCallback(&switch_received));
        endpoints[i].nic->TraceConnectWithoutContext("PhyTxEnd", MakeBoundCallback(&packet_sent, i));
    }
    for (endpoint &e : endpoints)
        for (int ahead = 0; ahead < 2; ahead++) packet_send(e);
    Simulator::Run();
    std::printf("%.3f\n", last.GetPicoSeconds() * 1e-6);
    Simulator::Destroy();
    return 0;
}
