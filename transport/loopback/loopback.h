// Transport between contexts of one process: how tests, examples and single-process meshes run the
// whole library without a network.
//
// A frame is copied once, by the writer's owner, into a ring that both ends share (lane_ring.h);
// nothing else crosses, and no lock is taken after set-up. Set-up (addresses, links, offers) goes
// through a registry of the process (registry.h).
//
// Threads: each transport belongs to one progress owner; the owners of the two ends may be
// different threads. Callbacks come only from `progress` and `send` of the own transport. on_sent
// comes from inside `send`. Objects are not destroyed from inside a callback. Teardown: either side
// may destroy anything at any time. What was committed before a link was closed is still delivered
// to a reader whose link is open; then that side hears on_link_down. Memory lives until the last
// end is gone. An address means something only inside the process that made it; a forked child is
// refused too.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace asyncmesh::transport {

std::unique_ptr<Transport> make_loopback();

}  // namespace asyncmesh::transport
