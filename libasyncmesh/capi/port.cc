#include <algorithm>

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

static_assert(ASYNCMESH_PORT_CHANNEL_OUT == static_cast<int>(core::PortRole::kChannelOut));
static_assert(ASYNCMESH_PORT_CHANNEL_IN == static_cast<int>(core::PortRole::kChannelIn));
static_assert(ASYNCMESH_PORT_MAILBOX == static_cast<int>(core::PortRole::kMailbox));
static_assert(ASYNCMESH_FRAME_TRAIN == static_cast<int>(core::FrameKind::kTrain));
static_assert(ASYNCMESH_FRAME_EVALUATE == static_cast<int>(core::FrameKind::kEvaluate));
static_assert(ASYNCMESH_FRAME_CONTROL == static_cast<int>(core::FrameKind::kControl));

constexpr asyncmesh_port_config_t kDefaults = ASYNCMESH_PORT_CONFIG_INIT;
constexpr asyncmesh_send_t kSendDefaults = ASYNCMESH_SEND_INIT;

Status read_frame(const asyncmesh_send_t& theirs, core::OutgoingFrame* out) {
  if (theirs.kind < ASYNCMESH_FRAME_TRAIN || theirs.kind > ASYNCMESH_FRAME_CONTROL)
    return invalid("kind is none of ASYNCMESH_FRAME_*");
  if (theirs.data == nullptr && theirs.bytes != 0) return invalid("data is null, bytes is not 0");
  if (theirs.dimensions > 4) return invalid("dimensions is above 4");
  if (theirs.dtype > ASYNCMESH_UINT8) return invalid("dtype is unknown");
  out->kind = static_cast<core::FrameKind>(theirs.kind);
  out->data = theirs.data;
  // The port's limit is far below: a size that does not fit is refused there.
  out->bytes = static_cast<uint32_t>(std::min<uint64_t>(theirs.bytes, UINT32_MAX));
  out->micro_batch = theirs.micro_batch;
  out->version = theirs.version;
  out->dtype = theirs.dtype;
  out->dimensions = theirs.dimensions;
  std::copy_n(theirs.shape, 4, out->shape.begin());
  return {};
}

void write_message(const core::IncomingFrame& frame, uint64_t token,
                   asyncmesh_message_t* message_out) {
  asyncmesh_message_t mine{};
  mine.kind = static_cast<uint32_t>(frame.kind);
  mine.data = frame.data;
  mine.bytes = frame.bytes;
  mine.micro_batch = frame.micro_batch;
  mine.version = frame.version;
  mine.dtype = frame.dtype;
  mine.dimensions = frame.dimensions;
  std::copy_n(frame.shape.begin(), 4, mine.shape);
  mine.source = frame.source;
  mine.staleness = frame.staleness;
  mine.token = token;
  copy_out(mine, message_out);
}

// The common answers carry no text, hence no allocation.
Status outcome(const core::PortObject& port, Code code) {
  if (code == Code::kOk) return {};
  if (code == Code::kAgain) return Status(code, {});
  return port.explain(code);
}

}  // namespace

asyncmesh_status_t asyncmesh_port_open(asyncmesh_mesh_t* mesh,
                                       const asyncmesh_port_config_t* config,
                                       asyncmesh_port_t** port_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(mesh, "mesh"));
    if (config == nullptr) return invalid("config is null: a port has no defaults");
    if (port_out == nullptr) return invalid("port_out is null");
    asyncmesh_port_config_t mine = kDefaults;
    ASYNCMESH_RETURN_IF_ERROR(copy_in(config, &mine));
    if (mine.kind > ASYNCMESH_PORT_MAILBOX) return invalid("kind is none of ASYNCMESH_PORT_*");
    core::PortSettings settings;
    settings.role = static_cast<core::PortRole>(mine.kind);
    settings.peer = mine.peer;
    settings.tag = mine.tag;
    settings.slots = mine.slots;
    settings.payload_bytes = mine.payload_bytes;
    settings.max_untaken = mine.max_untaken;
    settings.max_versions = mine.max_versions;
    settings.key = mine.key;
    auto port = core::PortObject::open(mesh->object, settings);
    if (!port.ok()) return port.status();
    *port_out = new asyncmesh_port{std::move(port.value())};
    return {};
  });
}

asyncmesh_status_t asyncmesh_port_send(asyncmesh_port_t* port,
                                       const asyncmesh_send_t* send) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(port, "port"));
    if (send == nullptr) return invalid("send is null");
    asyncmesh_send_t mine = kSendDefaults;
    ASYNCMESH_RETURN_IF_ERROR(copy_in(send, &mine));
    core::OutgoingFrame frame;
    ASYNCMESH_RETURN_IF_ERROR(read_frame(mine, &frame));
    return outcome(*port->object, port->object->send(frame, mine.timeout_ns));
  });
}

asyncmesh_status_t asyncmesh_port_recv(asyncmesh_port_t* port, uint64_t consumer_version,
                                       int64_t timeout_ns,
                                       asyncmesh_message_t* message_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(port, "port"));
    if (message_out == nullptr) return invalid("message_out is null");
    ASYNCMESH_RETURN_IF_ERROR(check_size(message_out));
    core::IncomingFrame frame;
    uint64_t token = 0;
    const Code code = port->object->receive(consumer_version, timeout_ns, &frame, &token);
    if (code == Code::kOk) write_message(frame, token, message_out);
    return outcome(*port->object, code);
  });
}

asyncmesh_status_t asyncmesh_port_release(asyncmesh_port_t* port,
                                          uint64_t token) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(port, "port"));
    return outcome(*port->object, port->object->release(token));
  });
}

void asyncmesh_port_close(asyncmesh_port_t* port) ASYNCMESH_NOEXCEPT { destroy(port); }
