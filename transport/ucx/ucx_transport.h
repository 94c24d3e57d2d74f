// The two engines over UCX. No UCX type appears here: this is all that the rest of the library sees
// of the room.
//
//   tag  two-sided: a frame is one tagged message, eager or rendezvous, into a receive that was
//   posted for exactly its sequence.
//        Runs over whatever UCX has: TCP, shared memory, InfiniBand.
//   rma  one-sided: the writer stores the frame and then a commit word into an arena of the reader.
//   Only where the memory of the
//        peer is natively writable (shared memory; RoCE and InfiniBand through rc). Never over TCP:
//        UCX emulates puts there, and a writer that is killed with an unread put makes the target
//        abort.
//
// Each call makes a UCP context and worker of its own; several may live in one process. The
// environment variables of UCX win over the defaults chosen here, but `tls` and the ban of TCP in
// rma win over UCX_TLS.
//
// Process-wide effects of the first call: UCX's own crash handlers are removed unless
// UCX_ERROR_SIGNALS or UCX_HANDLE_ERRORS is set, and UCX's log lines go into our error texts
// instead of to stdout unless UCX_LOG_LEVEL is set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "transport/transport.h"

namespace asyncmesh::transport {

// The steps of a frame's life, in order; what a FrameHook is called with. Commit steps exist in rma
// only, release steps are the reader's (in tag a release reposts the receive), credit steps the
// reader's too (with the credit's `released`).
enum class FrameStep : uint32_t {
  kBeforeFrame,
  kInsideFrame,  // rma with direct stores: half of the frame is written
  kAfterFrame,
  kAfterCommit,
  kBeforeRelease,
  kAfterRelease,
  kBeforeCredit,
  kAfterCredit,
};
inline constexpr uint32_t kFrameSteps = 8;

// For tests that end the process at a chosen step. Called by the progress owner.
using FrameHook = void (*)(FrameStep step, LaneId lane, Sequence sequence);

struct UcxConfig {
  std::string tls = "auto";  // "tcp", "shm" (this host only) or "auto": UCX_TLS where set, else
                             // whatever UCX offers
  std::string net_devices =
      {};  // comma separated, as UCX_NET_DEVICES; empty: that variable, else all
  bool direct_stores =
      true;  // rma: write mapped peer memory with the CPU instead of through ucp_put_nbx
  FrameHook hook = nullptr;
};

// kUnsupported: this host offers nothing that fits `config`; the text says what is missing.
// The clock must outlive the transport; it bounds the wait for UCX's own clean-up at destruction.
Result<std::unique_ptr<Transport>> make_ucx_tag(const UcxConfig& config, const Clock& clock);
Result<std::unique_ptr<Transport>> make_ucx_rma(const UcxConfig& config, const Clock& clock);

}  // namespace asyncmesh::transport
