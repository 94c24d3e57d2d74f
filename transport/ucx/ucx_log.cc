#include "transport/ucx/ucx_log.h"

#include <fmt/format.h>
#include <signal.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace asyncmesh::transport {
namespace {

constexpr size_t kLogBytes = 256;
thread_local char last_log[kLogBytes];

// Fatal lines still reach UCX's printer: the process is about to end and nobody could read them
// from us.
ucs_log_func_rc_t capture_log(const char*, unsigned, const char*, ucs_log_level_t level,
                              const ucs_log_component_config_t*, const char* format,
                              va_list arguments) {
  if (level == UCS_LOG_LEVEL_FATAL) return UCS_LOG_FUNC_RC_CONTINUE;
  if (level <= UCS_LOG_LEVEL_WARN) vsnprintf(last_log, kLogBytes, format, arguments);
  return UCS_LOG_FUNC_RC_STOP;
}

bool user_set(const char* variable) { return std::getenv(variable) != nullptr; }

}  // namespace

void tame_ucx() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!user_set("UCX_LOG_LEVEL")) ucs_log_push_handler(capture_log);
    if (user_set("UCX_ERROR_SIGNALS") || user_set("UCX_HANDLE_ERRORS")) return;
    // UCX installs these when it is loaded, before any setting of ours could reach it; disabling
    // restores what was there before.
    for (const int number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(number);
    last_log[0] = '\0';  // "signal was not set in ucs": versions that no longer install them
  });
}

std::string take_ucx_log() {
  std::string text = last_log;
  last_log[0] = '\0';
  return text;
}

Status ucx_error(Code code, std::string_view what, ucs_status_t status) {
  const std::string log = take_ucx_log();
  if (log.empty()) return {code, fmt::format("{}: {}", what, ucs_status_string(status))};
  return {code, fmt::format("{}: {} ({})", what, ucs_status_string(status), log)};
}

}  // namespace asyncmesh::transport
