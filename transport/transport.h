// The seam between the lane protocol and whatever moves bytes. No UCX type in it.
//
// A *transport* belongs to one context and is driven by one progress owner (one thread, or the
// caller of do_work). Between two processes lives a *link*; it has an epoch, agreed on the control
// socket. On a link live *lanes*, each with one writer and one reader: the reader opens an Inbound
// (a ring of `slots` slots in its memory), sends its `offer()` to the writer over the control
// socket, and the writer opens an Outbound with it. Frame `sequence` (from 1) goes to slot
// `sequence % slots`.
//
//      writer                                                        reader
//   LaneWriter -> Outbound::send ---- frame, then commit ---->  slot -> InboundSink::on_frame ->
//   LaneReader LaneWriter <- OutboundSink::on_credit <---- cumulative ----  Inbound::send_credit <-
//   LaneReader
//
// What the layer above guarantees: at most `slots` frames of a lane are unreleased, so a slot is
// never written before `Inbound::release` was called for its previous frame; sequences are sent in
// order, each once per epoch. What a transport guarantees: on_frame only for whole frames, exactly
// as sent (a decorator may break this on purpose; the lane's checks then end in a link reset and
// replay); nothing from another epoch is delivered; no call below blocks or waits for a peer.
//
// Ownership: destroying an object closes it. Outbound and Inbound may outlive their Link (lent
// slots stay readable after a link was lost), but not their Transport. After `stop`/destruction (of
// the object or its Link) no callback comes, and no object is destroyed from inside a callback.
// Threads: everything here belongs to the progress owner; nothing is thread-safe. Memory: the hot
// calls (send, release, send_credit, progress) do not allocate after warm-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace asyncmesh::transport {

using Rank = uint32_t;
using LaneId = uint16_t;    // chosen by the reader; unique among the inbound lanes of a context
using Epoch = uint16_t;     // of a link, from 1; never repeats for one pair of incarnations
using Sequence = uint64_t;  // of a frame on its lane, from 1; 48 bits travel
using Bytes = std::vector<std::byte>;

inline constexpr Sequence kSequenceMask = (Sequence{1} << 48) - 1;

// A frame lies so many bytes behind a multiple of 64, in staging memory and in slots: its header
// then ends, and its payload starts, with a cache line. The bytes in front are the transport's (its
// commit word).
inline constexpr size_t kFrameLead = 8;

struct LaneGeometry {
  uint32_t slots = 0;       // a power of two, >= 2
  uint32_t slot_bytes = 0;  // largest frame (header included); kFrameLead below a multiple of 64

  // From one slot to the next.
  constexpr size_t stride() const { return size_t{slot_bytes} + kFrameLead; }
};

// Cumulative counts of frames of one lane, as sequences: frames 1..received are in the reader's
// hands, 1..taken were handed to the application, 1..released are done with (their slots are free).
// released <= taken <= received.
struct Credit {
  Sequence received = 0;
  Sequence taken = 0;
  Sequence released = 0;
  bool operator==(const Credit&) const = default;
};

// A staged frame: header and payload, contiguous, in memory that was given to `register_staging`.
// Stays unchanged and readable until on_sent, or until the Outbound was destroyed (the memory
// itself outlives the transport).
struct Frame {
  const std::byte* data = nullptr;
  uint32_t bytes = 0;
  uint32_t staging = 0;  // what register_staging returned for it
};

class InboundSink {
 public:
  virtual ~InboundSink() = default;
  // Frame `sequence` lies in `slot` (kFrameLead behind a multiple of 64). `bytes` is its length
  // where the transport knows it, else the slot's size: the receiver trusts only the frame's own,
  // validated header. The slot stays put until Inbound::release(sequence).
  virtual void on_frame(Sequence sequence, std::byte* slot, uint32_t bytes) = 0;
};

class OutboundSink {
 public:
  virtual ~OutboundSink() = default;
  virtual void on_sent(
      Sequence sequence) = 0;  // the transport no longer reads the frame (not: it arrived)
  virtual void on_credit(const Credit& credit) = 0;
};

class LinkSink {
 public:
  virtual ~LinkSink() = default;
  // The link's data path failed. Comes at most once per link; the owner then destroys the Link (not
  // from inside this call).
  virtual void on_link_down(Rank peer, Epoch epoch, const Status& why) = 0;
};

// The reader's end of a lane.
class Inbound {
 public:
  virtual ~Inbound() = default;
  virtual std::span<const std::byte> offer()
      const = 0;                                // opaque; what open_outbound at the writer needs
  virtual void release(Sequence sequence) = 0;  // in order; the slot may be overwritten from now on
  virtual Code send_credit(
      const Credit& credit) = 0;  // kAgain: the previous one is still on its way, call again later
  virtual void stop() = 0;        // no on_frame any more; slots stay readable until destruction
};

// The writer's end of a lane.
class Outbound {
 public:
  virtual ~Outbound() = default;
  // kOk: on_sent(sequence) will come (possibly from inside this call). kLinkError: the link is
  // down, nothing will come.
  virtual Code send(Sequence sequence, const Frame& frame) = 0;
};

class Link {
 public:
  virtual ~Link() = default;  // forced close: returns without waiting for the peer; stops its lanes
  // `next` is the first sequence this reader still wants: slots are prepared for next .. next +
  // slots - 1.
  virtual Result<std::unique_ptr<Inbound>> open_inbound(LaneId lane, const LaneGeometry& geometry,
                                                        Sequence next, InboundSink& sink) = 0;
  virtual Result<std::unique_ptr<Outbound>> open_outbound(LaneId lane, const LaneGeometry& geometry,
                                                          std::span<const std::byte> offer,
                                                          OutboundSink& sink) = 0;
  virtual std::string describe()
      const = 0;  // for people: "tag over posix", "rma over posix", "loopback", "paced(...)"
};

struct Capabilities {
  bool remote_memory = false;  // frames are put into the reader's memory by the writer
  bool device_memory = false;  // frames may lie in GPU memory
  bool has_event_fd = false;   // event_fd/arm work; else the owner polls
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name()
      const = 0;  // "tag", "rma", "loopback"; decorators prefix: "paced:tag"
  virtual Capabilities capabilities() const = 0;
  // What a peer needs to open a link to this transport; handed only to authenticated peers.
  // Constant.
  virtual std::span<const std::byte> address() const = 0;
  virtual Result<std::unique_ptr<Link>> open_link(Rank peer, Epoch epoch,
                                                  std::span<const std::byte> peer_address,
                                                  LinkSink& sink) = 0;
  // Memory from which frames will be sent; returns the id for Frame::staging. It must stay mapped
  // until the transport is gone.
  virtual Result<uint32_t> register_staging(std::span<std::byte> memory) = 0;

  // Moves bytes and calls sinks. Returns the number of events handled; 0 = idle.
  virtual uint32_t progress() = 0;
  // The next moment at which progress must run even without an event (paced, faulty); kNever if
  // none.
  virtual Nanoseconds next_deadline() const = 0;
  // Readable when progress has work, after arm() returned true. arm() false: there is work already,
  // call progress.
  virtual int event_fd() const = 0;  // -1 without has_event_fd
  virtual bool arm() = 0;
};

}  // namespace asyncmesh::transport
