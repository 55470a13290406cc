/* simgrid.cpp - the all-to-allv of a list of messages in SimGrid, for comparison: every endpoint has a link up and a
 * link down of one rate, its sender keeps so many messages in flight, and flows share links by max-min.
 *
 * simgrid LIST RATE_GBS LATENCY_US IN_FLIGHT [PER_LEAF UPLINK_GBS]: with the last two, endpoints of a leaf share one link
 * up and one down to a spine.  Prints the simulated time in microseconds. */
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace sg = simgrid::s4u;

struct message { int target; double bytes; };

static std::vector<std::vector<message>> list_read(const char *path)
{
    std::ifstream in(path);
    size_t ranks = 0, count = 0;
    int source = 0;
    message m{};
    in >> ranks >> count;
    std::vector<std::vector<message>> list(ranks);
    while (in >> source >> m.target >> m.bytes) list.at(static_cast<size_t>(source)).push_back(m);
    return list;
}

/* Posts in order, as many at once as it may. */
static void send_all(const std::vector<message> &messages, size_t in_flight)
{
    sg::Host *self = sg::this_actor::get_host();
    std::vector<sg::CommPtr> active;
    for (const message &m : messages) {
        if (active.size() == in_flight) active.erase(active.begin() + sg::Comm::wait_any(active));
        sg::Host *target = sg::Host::by_name("h" + std::to_string(m.target));
        active.push_back(sg::Comm::sendto_async(self, target, static_cast<uint64_t>(m.bytes)));
    }
    for (const sg::CommPtr &comm : active) comm->wait();
}

using direction = sg::LinkInRoute::Direction;

static sg::SplitDuplexLink *link_make(sg::NetZone *zone, const std::string &name, double rate, double latency)
{
    auto *link = const_cast<sg::SplitDuplexLink *>(zone->create_split_duplex_link(name, rate));
    link->set_latency(latency);
    return link;
}

/* One switch. */
static void star_make(size_t ranks, double rate, double latency)
{
    auto *zone = sg::create_star_zone("net");
    for (size_t i = 0; i < ranks; i++) {
        auto *host = zone->create_host("h" + std::to_string(i), 1e9);
        const auto *link = link_make(zone, "l" + std::to_string(i), rate, latency / 2);
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, { { link, direction::UP } }, true);
    }
    zone->seal();
}

/* Leaves below one spine: what stays below a leaf does not cross its link. */
static void leaves_make(size_t ranks, double rate, double latency, size_t per_leaf, double uplink)
{
    auto *zone = sg::create_full_zone("net");
    std::vector<sg::Host *> host;
    std::vector<sg::SplitDuplexLink *> own, leaf;
    for (size_t i = 0; i <= (ranks - 1) / per_leaf; i++)
        leaf.push_back(link_make(zone, "leaf" + std::to_string(i), uplink, 0));
    for (size_t i = 0; i < ranks; i++) {
        host.push_back(zone->create_host("h" + std::to_string(i), 1e9));
        own.push_back(link_make(zone, "l" + std::to_string(i), rate, latency / 2));
    }
    for (size_t i = 0; i < ranks; i++)
        for (size_t j = 0; j < ranks; j++) {
            if (i == j) continue;
            std::vector<sg::LinkInRoute> way{ { own[i], direction::UP } };
            if (i / per_leaf != j / per_leaf) {
                way.emplace_back(leaf[i / per_leaf], direction::UP);
                way.emplace_back(leaf[j / per_leaf], direction::DOWN);
            }
            way.emplace_back(own[j], direction::DOWN);
            zone->add_route(host[i]->get_netpoint(), host[j]->get_netpoint(), nullptr, nullptr, way, false);
        }
    zone->seal();
}

int main(int argc, char **argv)
{
    sg::Engine engine(&argc, argv);
    if (argc != 5 && argc != 7) {
        std::fprintf(stderr, "simgrid: LIST RATE_GBS LATENCY_US IN_FLIGHT [PER_LEAF UPLINK_GBS]\n");
        return 2;
    }
    sg::Engine::set_config("network/model:CM02");
    sg::Engine::set_config("network/bandwidth-factor:1");
    sg::Engine::set_config("network/latency-factor:1");
    sg::Engine::set_config("network/weight-S:0");
    sg::Engine::set_config("network/TCP-gamma:0");
    sg::Engine::set_config("network/crosstraffic:0");
    const auto list = list_read(argv[1]);
    const double rate = std::atof(argv[2]) * 1e9, latency = std::atof(argv[3]) * 1e-6;
    if (argc == 7)
        leaves_make(list.size(), rate, latency, std::strtoul(argv[5], nullptr, 10), std::atof(argv[6]) * 1e9);
    else
        star_make(list.size(), rate, latency);
    const size_t in_flight = std::strtoul(argv[4], nullptr, 10);
    for (size_t i = 0; i < list.size(); i++)
        sg::Actor::create("s" + std::to_string(i), sg::Host::by_name("h" + std::to_string(i)), send_all,
                          std::cref(list[i]), in_flight);
    engine.run();
    std::printf("%.3f\n", sg::Engine::get_clock() * 1e6);
    return 0;
}
