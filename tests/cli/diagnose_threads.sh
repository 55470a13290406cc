# The public threads that are quick to predict, and at which place the cause of each stands; all: tests/accuracy/threads/run.
source/tests/accuracy/threads/run "$EPTWIN" a100_acs a100_vm_acs a30_across_sockets emerald_rapids h20_ll_rdma \
    h200_no_gdrcopy mooncake_far_nics uccl_no_barrier later/a100_far_nic later/bond_one_request later/thor_staged
source/tests/accuracy/threads/run "$EPTWIN" --flat mooncake_far_nics
