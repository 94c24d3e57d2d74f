// C++20 over asyncmesh.h: handles that destroy themselves, failures as exceptions, nothing else.
//
//      using namespace asyncmesh::cpp;
//      auto [config, mesh_config] = config_from_env();
//      Context context(config);
//      Mesh mesh(context, mesh_config, std::chrono::minutes(1));
//      Region region(context, {{weights.data(), weights.size(), 1}});
//      Averager averager(mesh, region);
//      ...
//      averager.call(progress);           // after each optimiser step
//      averager.finish(std::chrono::minutes(1));
//      mesh.leave(std::chrono::minutes(1));
//
// Header-only, so the library's ABI stays C. Everything that asyncmesh.h says about threads,
// ownership and order holds here; handle() gives the C handle for what has no method. Destruction
// order is free: children keep their parents.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "asyncmesh/asyncmesh.h"

namespace asyncmesh::cpp {

// A call failed; what() is the library's text.
class Error : public std::runtime_error {
 public:
  explicit Error(asyncmesh_status_t status)
      : std::runtime_error(std::string(asyncmesh_status_name(status)) + ": " +
                           asyncmesh_last_error()),
        status_(status) {}
  asyncmesh_status_t status() const noexcept { return status_; }

 private:
  asyncmesh_status_t status_;
};

inline void check(asyncmesh_status_t status) {
  if (status != ASYNCMESH_OK) throw Error(status);
}
// False: not now (AGAIN), or not in time (TIMEOUT).
inline bool check_ready(asyncmesh_status_t status) {
  if (status == ASYNCMESH_AGAIN || status == ASYNCMESH_TIMEOUT) return false;
  check(status);
  return true;
}

using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout kForever{-1};
inline constexpr Timeout kNow{0};

template <typename T>
T versioned() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

template <typename T, void (*kDestroy)(T*)>
class Handle {
 public:
  T* handle() const noexcept { return handle_.get(); }

 protected:
  explicit Handle(T* handle) : handle_(handle) {}

 private:
  struct Destroyer {
    void operator()(T* handle) const noexcept { kDestroy(handle); }
  };
  std::unique_ptr<T, Destroyer> handle_;
};

// Calls make(&handle) and checks it.
template <typename T, typename Make>
T* created(Make make) {
  T* handle = nullptr;
  check(make(&handle));
  return handle;
}

inline std::pair<asyncmesh_config_t, asyncmesh_mesh_config_t> config_from_env() {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  asyncmesh_mesh_config_t mesh_config = ASYNCMESH_MESH_CONFIG_INIT;
  check(asyncmesh_config_from_env(&config, &mesh_config));
  return {config, mesh_config};
}

class Context : public Handle<asyncmesh_context_t, asyncmesh_context_destroy> {
 public:
  explicit Context(const asyncmesh_config_t& config = ASYNCMESH_CONFIG_INIT)
      : Handle(created<asyncmesh_context_t>(
            [&](auto** out) { return asyncmesh_context_create(&config, out); })) {}

  uint32_t do_work() {
    uint32_t work = 0;
    check(asyncmesh_context_do_work(handle(), &work));
    return work;
  }
  // What is ready, at most 16 events; none at the timeout.
  std::vector<asyncmesh_event_t> poll(Timeout timeout) {
    std::array<asyncmesh_event_t, 16> events{};
    events[0].struct_size = sizeof(asyncmesh_event_t);
    uint32_t count = 0;
    if (!check_ready(asyncmesh_context_poll(handle(), events.data(), 16, &count, timeout.count())))
      return {};
    return {events.begin(), events.begin() + count};
  }
  std::vector<asyncmesh_counter_t> counters() const {
    uint32_t count = 0;
    check(asyncmesh_counters_read(handle(), nullptr, 0, &count));
    std::vector<asyncmesh_counter_t> counters(count + 1);
    counters[0].struct_size = sizeof(asyncmesh_counter_t);
    const auto capacity = static_cast<uint32_t>(counters.size());
    check(asyncmesh_counters_read(handle(), counters.data(), capacity, &count));
    counters.resize(count < capacity ? count : capacity);
    return counters;
  }
  std::string describe() const {
    uint64_t need = 0;
    std::string text;
    for (asyncmesh_status_t status = ASYNCMESH_TOO_LARGE; status != ASYNCMESH_OK;) {
      text.resize(need);
      status = asyncmesh_describe(handle(), text.data(), text.size(), &need);
      if (status != ASYNCMESH_TOO_LARGE) check(status);
    }
    text.resize(need - 1);
    return text;
  }
};

class Mesh : public Handle<asyncmesh_mesh_t, asyncmesh_mesh_destroy> {
 public:
  Mesh(const Context& context, const asyncmesh_mesh_config_t& config, Timeout timeout)
      : Handle(created<asyncmesh_mesh_t>([&](auto** out) {
          return asyncmesh_mesh_join(context.handle(), &config, timeout.count(), out);
        })) {}

  asyncmesh_mesh_info_t info() const {
    auto info = versioned<asyncmesh_mesh_info_t>();
    check(asyncmesh_mesh_query(handle(), &info));
    return info;
  }
  asyncmesh_peer_info_t peer(uint32_t rank) const {
    auto info = versioned<asyncmesh_peer_info_t>();
    check(asyncmesh_mesh_peer(handle(), rank, &info));
    return info;
  }
  void leave(Timeout timeout) { check(asyncmesh_mesh_leave(handle(), timeout.count())); }
};

// One tensor in host memory.
struct Tensor {
  void* data = nullptr;
  uint64_t count = 0;
  uint64_t id = 0;
  asyncmesh_dtype_t dtype = ASYNCMESH_FLOAT32;
};

class Region : public Handle<asyncmesh_region_t, asyncmesh_region_destroy> {
 public:
  Region(const Context& context, const std::vector<Tensor>& tensors)
      : Handle(created<asyncmesh_region_t>([&](auto** out) {
          const auto table = describe(tensors);
          return asyncmesh_region_create(context.handle(), table.data(),
                                         static_cast<uint32_t>(table.size()), out);
        })) {}
  void rebind(const std::vector<Tensor>& tensors) {
    const auto table = describe(tensors);
    check(asyncmesh_region_rebind(handle(), table.data(), static_cast<uint32_t>(table.size())));
  }

 private:
  static std::vector<asyncmesh_tensor_t> describe(const std::vector<Tensor>& tensors) {
    std::vector<asyncmesh_tensor_t> table;
    for (const Tensor& tensor : tensors) {
      auto entry = versioned<asyncmesh_tensor_t>();
      entry.dtype = tensor.dtype;
      entry.data = tensor.data;
      entry.count = tensor.count;
      entry.id = tensor.id;
      entry.device = -1;
      table.push_back(entry);
    }
    return table;
  }
};

class Averager : public Handle<asyncmesh_averager_t, asyncmesh_averager_destroy> {
 public:
  Averager(const Mesh& mesh, const Region& region,
           const asyncmesh_averager_config_t& config = ASYNCMESH_AVERAGER_CONFIG_INIT)
      : Handle(created<asyncmesh_averager_t>([&](auto** out) {
          return asyncmesh_averager_create(mesh.handle(), region.handle(), &config, out);
        })) {}

  asyncmesh_averager_result_t call(double progress) {
    asyncmesh_averager_call_t call = ASYNCMESH_AVERAGER_CALL_INIT;
    call.progress = progress;
    return this->call(call);
  }
  asyncmesh_averager_result_t call(const asyncmesh_averager_call_t& call) {
    auto result = versioned<asyncmesh_averager_result_t>();
    check(asyncmesh_averager_call(handle(), &call, &result));
    return result;
  }
  void mean(const Region& in, const Region& out, float weight = 1.0F, Timeout timeout = kForever) {
    asyncmesh_mean_t mean = ASYNCMESH_MEAN_INIT;
    mean.weight = weight;
    mean.timeout_ns = timeout.count();
    check(asyncmesh_averager_mean(handle(), in.handle(), out.handle(), &mean));
  }
  void finish(Timeout timeout) { check(asyncmesh_averager_finish(handle(), timeout.count())); }
  asyncmesh_averager_info_t info() const {
    auto info = versioned<asyncmesh_averager_info_t>();
    check(asyncmesh_averager_query(handle(), &info));
    return info;
  }
  std::vector<std::byte> save() const {
    uint64_t need = 0;
    const asyncmesh_status_t status = asyncmesh_averager_save(handle(), nullptr, 0, &need);
    if (status != ASYNCMESH_TOO_LARGE) check(status);
    std::vector<std::byte> state(need);
    check(asyncmesh_averager_save(handle(), state.data(), state.size(), &need));
    return state;
  }
  void load(std::span<const std::byte> state) {
    check(asyncmesh_averager_load(handle(), state.data(), state.size()));
  }
};

class Optimiser : public Handle<asyncmesh_optimiser_t, asyncmesh_optimiser_destroy> {
 public:
  Optimiser(const Region& weights, const Region& gradients,
            const asyncmesh_optimiser_config_t& config = ASYNCMESH_OPTIMISER_CONFIG_INIT)
      : Handle(created<asyncmesh_optimiser_t>([&](auto** out) {
          return asyncmesh_optimiser_create(weights.handle(), gradients.handle(), &config, out);
        })) {}
  // Returns the gradient's norm before clipping.
  double step(const asyncmesh_optimiser_step_t& step) {
    double norm = 0;
    check(asyncmesh_optimiser_step(handle(), &step, &norm));
    return norm;
  }
};

class Stage : public Handle<asyncmesh_stage_t, asyncmesh_stage_destroy> {
 public:
  explicit Stage(const asyncmesh_stage_config_t& config)
      : Handle(created<asyncmesh_stage_t>(
            [&](auto** out) { return asyncmesh_stage_create(&config, out); })) {}
  asyncmesh_action_t next(uint32_t ready) {
    auto action = versioned<asyncmesh_action_t>();
    check(asyncmesh_stage_next(handle(), ready, &action));
    return action;
  }
};

// A received frame; releases its slot when it is destroyed. Must not outlive its port.
class Message {
 public:
  Message(asyncmesh_port_t* port, const asyncmesh_message_t& message)
      : port_(port), message_(message) {}
  Message(Message&& other) noexcept
      : port_(std::exchange(other.port_, nullptr)), message_(other.message_) {}
  Message& operator=(Message&& other) noexcept {
    if (this != &other) {
      release();
      port_ = std::exchange(other.port_, nullptr);
      message_ = other.message_;
    }
    return *this;
  }
  ~Message() { release(); }

  const asyncmesh_message_t& operator*() const noexcept { return message_; }
  const asyncmesh_message_t* operator->() const noexcept { return &message_; }
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(message_.data), static_cast<size_t>(message_.bytes)};
  }

 private:
  void release() noexcept {
    if (port_ != nullptr) asyncmesh_port_release(port_, message_.token);
    port_ = nullptr;
  }
  asyncmesh_port_t* port_;
  asyncmesh_message_t message_;
};

class Port : public Handle<asyncmesh_port_t, asyncmesh_port_close> {
 public:
  Port(const Mesh& mesh, const asyncmesh_port_config_t& config)
      : Handle(created<asyncmesh_port_t>(
            [&](auto** out) { return asyncmesh_port_open(mesh.handle(), &config, out); })) {}

  // False: a bound is reached (send.timeout_ns 0), or was until the timeout.
  bool send(const asyncmesh_send_t& send) {
    return check_ready(asyncmesh_port_send(handle(), &send));
  }
  bool send(std::span<const std::byte> payload, uint64_t micro_batch = 0, Timeout timeout = kNow) {
    asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
    send.data = payload.data();
    send.bytes = payload.size();
    send.micro_batch = micro_batch;
    send.timeout_ns = timeout.count();
    return this->send(send);
  }
  // Empty: nothing there, or nothing came in time.
  std::optional<Message> recv(uint64_t consumer_version = 0, Timeout timeout = kNow) {
    auto message = versioned<asyncmesh_message_t>();
    if (!check_ready(asyncmesh_port_recv(handle(), consumer_version, timeout.count(), &message)))
      return std::nullopt;
    return Message(handle(), message);
  }
};

}  // namespace asyncmesh::cpp
