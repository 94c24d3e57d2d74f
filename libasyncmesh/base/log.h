// Where messages go: a sink that the application gave, held by the context, never global.
//
//      if (logger.enabled(LogLevel::kWarning)) {
//        logger.write(LogLevel::kWarning, fmt::format("link to rank {} was reset", rank));
//      }
//
// Ask `enabled` before a text is made, so that a disabled level costs a comparison. The library
// itself never prints. Threads: any; the sink must bear calls from several threads at once. The
// text is valid during the call only and ends without a newline; it is not NUL-terminated.
#pragma once

#include <cstdint>
#include <string_view>

namespace asyncmesh {

enum class LogLevel : uint32_t { kOff = 0, kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

// "error", "warning", ...; static storage.
constexpr std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return "off";
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "unknown";
}

class Logger {
 public:
  using Sink = void (*)(void* user, LogLevel level, std::string_view text);

  Logger() = default;  // silent
  Logger(Sink sink, void* user, LogLevel level) : sink_(sink), user_(user), level_(level) {}

  bool enabled(LogLevel level) const noexcept {
    return sink_ != nullptr && level != LogLevel::kOff && level <= level_;
  }
  void write(LogLevel level, std::string_view text) const {
    if (enabled(level)) sink_(user_, level, text);
  }

 private:
  Sink sink_ = nullptr;
  void* user_ = nullptr;
  LogLevel level_ = LogLevel::kOff;
};

}  // namespace asyncmesh
