// What a bug report needs: versions, the libucp that was loaded, transports and devices, the engine
// and interface chosen and why, memory limits, CUDA, CPUs. Creates a context as a training job
// would (the same variables and options), asks it, prints.
#include <asyncmesh/asyncmesh.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  bool json = false;
  std::string engine = "auto";
  std::string tls;
  std::string net_devices;
  std::string link;
};

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

int report(asyncmesh_context_t* context, bool json) {
  const std::string text = describe(context);
  if (text.empty()) return fail("describe");
  const Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) {
    std::fprintf(stderr, "asyncmesh_info: the library's description is not JSON:\n%s\n",
                 text.c_str());
    return 1;
  }
  if (json) {
    std::printf("%s\n", value.dump(2).c_str());
  } else {
    print(value, 0);
  }
  return 0;
}

int run(const Options& options) {
  asyncmesh_config_t config = ASYNCMESH_CONFIG_INIT;
  if (asyncmesh_config_from_env(&config, nullptr) != ASYNCMESH_OK) return fail("environment");
  if (options.engine != "auto") config.engine = engines().at(options.engine);
  if (!assign(config.tls, options.tls) || !assign(config.net_devices, options.net_devices) ||
      !assign(config.link, options.link)) {
    std::fprintf(stderr, "asyncmesh_info: an option is longer than 63 characters\n");
    return 2;
  }
  asyncmesh_context_t* context = nullptr;
  if (asyncmesh_context_create(&config, &context) != ASYNCMESH_OK) return fail("context");
  const int status = report(context, options.json);
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
  app.set_version_flag("--version", std::string("asyncmesh ") + asyncmesh_version_string());
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
