// What a bug report needs: versions, the libucp that was loaded, transports and devices, the engine
// and interface chosen and why, memory limits, CUDA, CPUs.
//
// Creates a context as a training job would (the same variables and options) and joins a mesh of
// one rank, for only then are engine and interface chosen. It meets nobody: the port of the
// rendezvous is replaced by a free one. Where the rendezvous is another host, the choice cannot be
// rehearsed; the text says so and shows what is left.
#include <arpa/inet.h>
#include <asyncmesh/asyncmesh.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  bool json = false;
  std::string engine = "auto";
  std::string tls;
  std::string net_devices;
  std::string link;
  std::string rendezvous;
};

constexpr int64_t kJoinTimeout = 5'000'000'000;  // ns

const std::map<std::string, uint32_t>& engines() {
  static const std::map<std::string, uint32_t> names = {{"auto", ASYNCMESH_ENGINE_AUTO},
                                                        {"tag", ASYNCMESH_ENGINE_TAG},
                                                        {"rma", ASYNCMESH_ENGINE_RMA},
                                                        {"loopback", ASYNCMESH_ENGINE_LOOPBACK}};
  return names;
}

// Empty: what the environment said stays. False: too long for the field.
template <size_t kSize>
bool assign(char (&field)[kSize], const std::string& value) {
  if (value.size() >= kSize) return false;
  if (!value.empty()) std::memcpy(field, value.c_str(), value.size() + 1);
  return true;
}

int fail(const char* what) {
  std::fprintf(stderr, "asyncmesh_info: %s: %s\n", what, asyncmesh_last_error());
  return 1;
}

std::string describe(asyncmesh_context_t* context) {
  uint64_t need = 0;
  asyncmesh_status_t status = asyncmesh_describe(context, nullptr, 0, &need);
  std::string text;
  // The text may grow between two calls (links come and go), so ask until it fits.
  while (status == ASYNCMESH_TOO_LARGE) {
    text.resize(need);
    status = asyncmesh_describe(context, text.data(), text.size(), &need);
  }
  if (status != ASYNCMESH_OK) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

std::string scalar(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool flat(const Json& array) {
  for (const Json& element : array) {
    if (element.is_structured()) return false;
  }
  return true;
}

void print(const Json& value, int indent);

void print_entry(const std::string& name, const Json& value, int indent) {
  if (value.is_array() && flat(value)) {
    std::string joined;
    for (const Json& element : value) joined += (joined.empty() ? "" : ", ") + scalar(element);
    std::printf("%*s%s: %s\n", indent, "", name.c_str(), joined.c_str());
  } else if (value.is_structured()) {
    std::printf("%*s%s\n", indent, "", name.c_str());
    print(value, indent + 2);
  } else {
    std::printf("%*s%s: %s\n", indent, "", name.c_str(), scalar(value).c_str());
  }
}

void print(const Json& value, int indent) {
  if (value.is_object()) {
    for (const auto& item : value.items()) print_entry(item.key(), item.value(), indent);
    return;
  }
  for (const Json& element : value) {
    std::string line;
    if (element.is_object()) {
      for (const auto& item : element.items()) {
        line += (line.empty() ? "" : "  ") + item.key() + "=" + scalar(item.value());
      }
    } else {
      line = scalar(element);
    }
    std::printf("%*s- %s\n", indent, "", line.c_str());
  }
}

// A secret that nobody else has.
bool draw_secret(char (&secret)[256]) {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) return false;
  for (size_t i = 0; i < sizeof(bytes); ++i) std::snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

// A port that is free on this host right now; 0: none.
uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  const bool good = bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return good ? ntohs(address.sin_port) : uint16_t{0};
}

// Alone, at the host but not at the port where the job would meet. Empty: joined; else why not.
std::string join_alone(asyncmesh_context_t* context, asyncmesh_mesh_config_t config,
                       asyncmesh_mesh_t** mesh_out) {
  config.rank = config.replica = config.stage = 0;
  config.replicas = config.stages = 1;
  config.external_rendezvous = 0;
  std::string url = *config.url != 0 ? config.url : "tcp://127.0.0.1:1";
  const size_t port = url.rfind(':');
  if (url.find("://") != port)
    url.replace(port + 1, std::string::npos, std::to_string(free_port()));
  if (!draw_secret(config.secret)) return "no random bytes";
  if (!assign(config.url, url)) return "the url is too long";
  if (asyncmesh_mesh_join(context, &config, kJoinTimeout, mesh_out) == ASYNCMESH_OK) return {};
  return asyncmesh_last_error();
}

int report(asyncmesh_context_t* context, const std::string& why_not_joined, bool json) {
  const std::string text = describe(context);
  if (text.empty()) return fail("describe");
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) {
    std::fprintf(stderr, "asyncmesh_info: the library's description is not a JSON object:\n%s\n",
                 text.c_str());
    return 1;
  }
  if (!why_not_joined.empty()) value["mesh"] = {{"not_joined", why_not_joined}};
  if (json) {
    std::printf("%s\n", value.dump(2).c_str());
  } else {
    print(value, 0);
  }
  return 0;
}

int run(const Options& options) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  asyncmesh_mesh_config_t mesh_config = ASYNCMESH_MESH_CONFIG_INIT;
  if (asyncmesh_config_from_env(&config, &mesh_config) != ASYNCMESH_OK) return fail("environment");
  if (options.engine != "auto") config.engine = engines().at(options.engine);
  if (!assign(config.tls, options.tls) || !assign(config.net_devices, options.net_devices) ||
      !assign(config.link, options.link) || !assign(mesh_config.url, options.rendezvous)) {
    std::fprintf(stderr, "asyncmesh_info: the value of an option is too long\n");
    return 2;
  }
  asyncmesh_context_t* context = nullptr;
  if (asyncmesh_context_create(&config, &context) != ASYNCMESH_OK) return fail("context");
  asyncmesh_mesh_t* mesh = nullptr;
  const std::string why_not_joined = join_alone(context, mesh_config, &mesh);
  const int status = report(context, why_not_joined, options.json);
  asyncmesh_mesh_destroy(mesh);
  asyncmesh_context_destroy(context);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("AsyncMesh: what this machine and this build can do");
  Options options;
  app.add_flag("--json", options.json, "print JSON");
  app.add_option("--engine", options.engine, "engine to describe")
      ->check(CLI::IsMember(engines()))
      ->capture_default_str();
  app.add_option("--tls", options.tls, "tcp, shm, or a UCX_TLS list (default: ASYNCMESH_TLS)");
  app.add_option("--net-devices", options.net_devices,
                 "interface (default: ASYNCMESH_NET_DEVICES)");
  app.add_option("--link", options.link, "emulated link RATE,DELAY (default: ASYNCMESH_LINK)");
  app.add_option("--rendezvous", options.rendezvous,
                 "tcp://HOST:PORT where the job would meet (default: ASYNCMESH_RENDEZVOUS)");
  app.set_version_flag("--version", std::string("asyncmesh ") + asyncmesh_version_string());
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
