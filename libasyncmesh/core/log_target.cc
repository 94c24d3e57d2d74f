#include "core/log_target.h"

#include <fmt/format.h>
#include <unistd.h>

namespace asyncmesh::core {

void LogTarget::write_line(void* self, LogLevel level, std::string_view text) {
  const auto& target = *static_cast<LogTarget*>(self);
  const uint32_t rank = target.rank_.load(std::memory_order_relaxed);
  const std::string line =
      rank == UINT32_MAX ? fmt::format("asyncmesh {}: {}\n", log_level_name(level), text)
                         : fmt::format("asyncmesh[{}] {}: {}\n", rank, log_level_name(level), text);
  // A log that cannot be written must not disturb the job.
  [[maybe_unused]] const ssize_t written = write(target.fd_, line.data(), line.size());
}

}  // namespace asyncmesh::core
