// The transports of one rank: which are opened, how they are decorated, and which one a pair uses.
//
// A rank opens what its configuration allows, puts the addresses into one blob that the mesh hands
// to authenticated peers, and both ends of a link choose by the same rule from both blobs. Emulated
// links and faults are decorators: paced(faulty(engine)). With an emulated link one engine alone is
// opened, so that one bucket holds everything that leaves the rank.
//
// Threads: `open` before there is a progress owner for it; then the progress owner.
#pragma once

#include <poll.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/config.h"
#include "transport/faulty/faulty.h"
#include "transport/paced/paced.h"
#include "transport/transport.h"

namespace asyncmesh::core {

enum class Engine : uint8_t { kTag = 1, kRma = 2, kLoopback = 3 };

// What a peer must know, and what it is told.
struct EngineOffer {
  EngineChoice choice = EngineChoice::kAuto;
  struct Address {
    Engine engine = Engine::kTag;
    std::vector<std::byte> bytes;
  };
  std::vector<Address> addresses;

  const Address* find(Engine engine) const;
};
std::vector<std::byte> encode(const EngineOffer& offer);
Result<EngineOffer> decode_engine_offer(std::span<const std::byte> bytes);

// The same on both ends. kUnsupported: nothing that both have; kMismatch: different ones are
// forced.
Result<Engine> choose_engine(const EngineOffer& mine, const EngineOffer& theirs, bool same_host);

// "seed=1,drop=0.01,...": the names of FaultyConfig's fields. kInvalidArgument names the word.
Result<transport::FaultyConfig> parse_faults(std::string_view text);

// What can be said before anything is opened: unknown texts, engines that contradict the tls.
Status check_engines(const ContextConfig& config);

class Engines {
 public:
  // `net_devices`: what UCX may use; "" for all.
  static Result<std::unique_ptr<Engines>> open(const ContextConfig& config,
                                               const std::string& net_devices, const Clock& clock);

  const EngineOffer& offer() const { return offer_; }
  transport::Transport* find(Engine engine) const;
  const std::string& why_not_rma() const { return why_not_rma_; }  // "" if it is open

  std::vector<std::string> names() const;  // "paced:tag", ...
  std::string version() const;             // that both ends must share; "loopback" or "ucx 1.13"

  uint32_t progress_st();
  Nanoseconds next_deadline_st() const;
  bool arm_st();              // false: there is work
  bool sleepless_st() const;  // some engine has no event fd: it must be polled
  void add_fds(std::vector<pollfd>& fds) const;
  uint64_t faults_st() const;       // injected
  uint64_t paced_bytes_st() const;  // that left through emulated links

 private:
  struct Opened {
    Engine engine = Engine::kTag;
    std::unique_ptr<transport::Transport> transport;
    transport::FaultyTransport* faulty = nullptr;  // inside `transport`
    transport::PacedTransport* paced = nullptr;    // likewise
  };
  Status add(Engine engine, Result<std::unique_ptr<transport::Transport>> made,
             const ContextConfig& config, const Clock& clock);

  EngineOffer offer_;
  std::vector<Opened> opened_;
  std::string why_not_rma_;
};

}  // namespace asyncmesh::core
