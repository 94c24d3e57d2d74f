#include <cstring>

#include "capi/config.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/versioned.h"
#include "core/describe.h"

using namespace asyncmesh;
using namespace asyncmesh::capi;

namespace {

static_assert(ASYNCMESH_EVENT_PEER_SUSPECT == static_cast<int>(core::EventKind::kPeerSuspect));
static_assert(ASYNCMESH_EVENT_PEER_ALIVE == static_cast<int>(core::EventKind::kPeerAlive));
static_assert(ASYNCMESH_EVENT_PEER_LOST == static_cast<int>(core::EventKind::kPeerLost));
static_assert(ASYNCMESH_EVENT_PEER_LEFT == static_cast<int>(core::EventKind::kPeerLeft));
static_assert(ASYNCMESH_EVENT_MESH_LOST == static_cast<int>(core::EventKind::kMeshLost));
static_assert(ASYNCMESH_EVENT_PORT_READY == static_cast<int>(core::EventKind::kPortReady));

// Writes events straight into the caller's array.
class EventArray final : public core::EventSink {
 public:
  EventArray(asyncmesh_event_t* first, uint32_t stride) : first_(first), stride_(stride) {}

  void put(const core::Event& event) override {
    asyncmesh_event_t mine{};
    mine.struct_size = stride_;
    mine.kind = static_cast<uint32_t>(event.kind);
    mine.rank = event.rank;
    mine.status = static_cast<asyncmesh_status_t>(event.status);
    mine.port_key = event.port_key;
    text_out(event.text, mine.text);
    copy_out(mine, element(first_, stride_, count_), stride_);
    ++count_;
  }
  uint32_t count() const { return count_; }

 private:
  asyncmesh_event_t* first_;
  uint32_t stride_;
  uint32_t count_ = 0;
};

}  // namespace

asyncmesh_status_t asyncmesh_context_create(const asyncmesh_config_t* config,
                                            asyncmesh_context_t** context_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    if (context_out == nullptr) return invalid("context_out is null");
    core::ContextConfig mine;
    ASYNCMESH_RETURN_IF_ERROR(read_config(config, &mine));
    auto context = core::Context::create(mine);
    if (!context.ok()) return context.status();
    *context_out = new asyncmesh_context{std::move(context.value())};
    return {};
  });
}

void asyncmesh_context_destroy(asyncmesh_context_t* context) ASYNCMESH_NOEXCEPT {
  destroy(context);
}

asyncmesh_status_t asyncmesh_context_do_work(asyncmesh_context_t* context,
                                             uint32_t* work_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(context, "context"));
    const auto work = context->object->do_work();
    if (!work.ok()) return work.status();
    if (work_out != nullptr) *work_out = work.value();
    return {};
  });
}

asyncmesh_status_t asyncmesh_context_poll(asyncmesh_context_t* context, asyncmesh_event_t* events,
                                          uint32_t capacity, uint32_t* count_out,
                                          int64_t timeout_ns) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(context, "context"));
    if (events == nullptr || count_out == nullptr) return invalid("events or count_out is null");
    if (capacity == 0) return invalid("capacity is 0");
    ASYNCMESH_RETURN_IF_ERROR(check_size(events));
    EventArray sink(events, events->struct_size);
    core::Context& object = *context->object;
    const Code code = object.poll(sink, capacity, deadline_after(object.clock(), timeout_ns));
    if (code != Code::kOk) return Status(code);
    *count_out = sink.count();
    return {};
  });
}

asyncmesh_status_t asyncmesh_counters_read(asyncmesh_context_t* context,
                                           asyncmesh_counter_t* counters, uint32_t capacity,
                                           uint32_t* count_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(context, "context"));
    if (count_out == nullptr) return invalid("count_out is null");
    if (counters == nullptr && capacity != 0) return invalid("counters is null");
    if (capacity != 0) ASYNCMESH_RETURN_IF_ERROR(check_size(counters));
    const std::vector<core::Counter> mine = context->object->read_counters();
    const uint32_t stride = capacity == 0 ? 0 : counters->struct_size;
    for (uint32_t i = 0; i < capacity && i < mine.size(); ++i) {
      asyncmesh_counter_t counter{};
      counter.value = mine[i].value;
      text_out(mine[i].name, counter.name);
      copy_out(counter, element(counters, stride, i), stride);
    }
    *count_out = static_cast<uint32_t>(mine.size());
    return {};
  });
}

asyncmesh_status_t asyncmesh_describe(asyncmesh_context_t* context, char* buffer, uint64_t capacity,
                                      uint64_t* need_out) ASYNCMESH_NOEXCEPT {
  return guard([&]() -> Status {
    ASYNCMESH_RETURN_IF_ERROR(usable(context, "context"));
    if (need_out == nullptr) return invalid("need_out is null");
    if (buffer == nullptr && capacity != 0) return invalid("buffer is null");
    const std::string text = core::describe(context->object.get());
    *need_out = text.size() + 1;
    if (text.size() + 1 > capacity)
      return Status(Code::kTooLarge, "the buffer is smaller than *need_out");
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return {};
  });
}
