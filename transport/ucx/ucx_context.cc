#include "transport/ucx/ucx_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {
namespace {

struct Setting {
  const char* name;  // as ucp_config_modify wants it
  const char* value;
  std::initializer_list<const char*> user;  // variables by which the user may have chosen
  unsigned since_minor = 0;                 // of UCX 1.x; older versions warn about unknown names
};

// MM_ is the common table of posix and sysv. Without it shared memory is refused for endpoints that
// report a lost peer.
//
// RNDV_THRESH: a sender that is killed between the fragments of an eager message leaves a receive
// that neither completes nor can be cancelled. Below this size a message is one fragment on every
// transport (segments are 8 KiB and up), above it rendezvous.
//
// MAX_POLL is TCP's. With more than one event per poll, an event may be handled for a connection
// that the event before it closed: an assertion in UCX 1.13.
//
// CONN_NB: a connect of TCP does not wait for the peer. And where it waited, UCX 1.13 would end the
// process if a peer connected, and was gone before it was answered: the answer makes a second
// attempt, which is refused at once, for an endpoint that is not yet known to be its user's.
//
// FENCE_MODE: later versions choose a fence that waits for all endpoints, and does not return while
// one peer is stopped.
constexpr unsigned kNoFloor = 0;
const Setting kSettings[] = {
    {"MM_ERROR_HANDLING",
     "y",
     {"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"},
     kNoFloor},
    {"RNDV_THRESH", "8000", {"UCX_RNDV_THRESH"}, kNoFloor},  // kEagerBytes
    {"MAX_POLL", "1", {"UCX_TCP_MAX_POLL"}, kNoFloor},
    {"CONN_NB", "y", {"UCX_TCP_CONN_NB"}, kNoFloor},
    {"KEEPALIVE_INTERVAL", "1s", {"UCX_KEEPALIVE_INTERVAL"}, kNoFloor},
    {"MAX_RMA_RAILS", "1", {"UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES"}, 14},
    {"FENCE_MODE", "weak", {"UCX_FENCE_MODE"}, 14},
};

bool user_chose(const Setting& setting) {
  return std::any_of(setting.user.begin(), setting.user.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

Status set(ucp_config_t* config, const char* name, const char* value) {
  const ucs_status_t status = ucp_config_modify(config, name, value);
  if (status == UCS_OK) return {};
  return ucx_error(Code::kInvalidArgument, fmt::format("UCX setting {}={}", name, value), status);
}

Status apply_settings(ucp_config_t* config, const UcxContextRequest& request) {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  for (const Setting& setting : kSettings) {
    if (minor < setting.since_minor || user_chose(setting)) continue;
    ASYNCMESH_RETURN_IF_ERROR(set(config, setting.name, setting.value));
  }
  const bool relaxed_matters = (request.features & UCP_FEATURE_RMA) != 0 && has_verbs_device();
  if (relaxed_matters && std::getenv("UCX_IB_PCI_RELAXED_ORDERING") == nullptr) {
    ASYNCMESH_RETURN_IF_ERROR(set(config, "PCI_RELAXED_ORDERING", "n"));
  }
  if (!request.tls.empty()) ASYNCMESH_RETURN_IF_ERROR(set(config, "TLS", request.tls.c_str()));
  if (!request.net_devices.empty()) {
    ASYNCMESH_RETURN_IF_ERROR(set(config, "NET_DEVICES", request.net_devices.c_str()));
  }
  return {};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Whether an entry of UCX_TLS (an alias, or a transport) covers the native transport `name`.
bool covers(std::string_view entry, std::string_view name) {
  if (entry == "all" || entry == name) return true;
  if (name == "posix" || name == "sysv") {
    return entry == "shm" || entry == "sm" || entry == "mm";
  }
  return entry == "ib" || entry.substr(0, 3) == "rc_";
}

}  // namespace

Result<UniqueUcpContext> open_ucp_context(const UcxContextRequest& request) {
  tame_ucx();
  take_ucx_log();
  ucp_config_t* raw_config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw_config);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "reading the settings of UCX", status);
  const UniqueUcpConfig config(raw_config);
  ASYNCMESH_RETURN_IF_ERROR(apply_settings(config.get(), request));

  ucp_params_t params{};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE | UCP_PARAM_FIELD_NAME;
  params.features = request.features;
  params.request_size = request.request_bytes;
  params.name = "asyncmesh";
  ucp_context_h context = nullptr;
  status = ucp_init(&params, config.get(), &context);
  if (status == UCS_ERR_NO_DEVICE) {
    return ucx_error(Code::kUnsupported, "UCX has no transport for this setting", status);
  }
  if (status != UCS_OK) return ucx_error(Code::kSystem, "initialising UCX", status);
  return UniqueUcpContext(context);
}

std::vector<std::string> ucp_context_resources(ucp_context_h context) {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  ucp_context_print_info(context, stream);
  fclose(stream);
  std::vector<std::string> resources;
  for (const std::string_view line : split({text, bytes}, '\n')) {
    if (line.find(" resource ") == std::string_view::npos) continue;
    const size_t start = line.find("-- ");
    if (start != std::string_view::npos)
      resources.emplace_back(split(line.substr(start + 3), ' ')[0]);
  }
  std::free(text);
  return resources;
}

Status check_tls(std::string_view tls) {
  if (tls == "auto" || tls == "shm" || tls == "tcp") return {};
  return {Code::kInvalidArgument, fmt::format("unknown transport choice \"{}\"", tls)};
}

std::string native_rma_tls(std::string_view tls, std::string_view user_tls, bool has_verbs) {
  const bool users_choice = tls == "auto" && !user_tls.empty();
  const bool deny = users_choice && user_tls.front() == '^';
  const auto entries = split(user_tls.substr(deny ? 1 : 0), ',');
  const auto allowed = [&](std::string_view name) {
    if (tls == "tcp") return false;
    if (!users_choice) return true;
    const bool listed = std::any_of(entries.begin(), entries.end(),
                                    [&](auto entry) { return covers(entry, name); });
    return listed != deny;
  };
  // One of the two suffices, and every transport in use costs time in each progress. System V needs
  // no space in /dev/shm, which containers keep small.
  std::string native = allowed("sysv") ? "sysv" : allowed("posix") ? "posix" : "";
  if (has_verbs && tls != "shm" && allowed("rc")) native += native.empty() ? "rc" : ",rc";
  return native;
}

bool has_verbs_device() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

}  // namespace asyncmesh::transport
