// What two ranks tell each other about their engines, and the rule by which both choose.
#include <fmt/format.h>

#include <charconv>

#include "base/byte_io.h"
#include "core/engines.h"

namespace asyncmesh::core {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kMaxAddresses = 8;

std::string_view name_of(EngineChoice choice) {
  switch (choice) {
    case EngineChoice::kAuto:
      return "auto";
    case EngineChoice::kTag:
      return "tag";
    case EngineChoice::kRma:
      return "rma";
    case EngineChoice::kLoopback:
      return "loopback";
  }
  return "unknown";
}

Engine engine_of(EngineChoice choice) {
  return choice == EngineChoice::kRma        ? Engine::kRma
         : choice == EngineChoice::kLoopback ? Engine::kLoopback
                                             : Engine::kTag;
}

Status set_fault(transport::FaultyConfig& config, std::string_view name, std::string_view value) {
  const struct {
    std::string_view name;
    double* target;
  } fields[] = {{"drop", &config.drop},   {"duplicate", &config.duplicate},
                {"delay", &config.delay}, {"corrupt", &config.corrupt},
                {"cut", &config.cut},     {"drop_credit", &config.drop_credit}};
  const char* end = value.data() + value.size();
  uint64_t whole = 0;
  double fraction = 0;
  for (const auto& field : fields) {
    if (field.name != name) continue;
    const auto [rest, error] = std::from_chars(value.data(), end, fraction);
    if (error != std::errc() || rest != end || !(fraction >= 0 && fraction <= 1))
      return Status(Code::kInvalidArgument,
                    fmt::format("faults: {} is a probability, not '{}'", name, value));
    *field.target = fraction;
    return {};
  }
  const auto [rest, error] = std::from_chars(value.data(), end, whole);
  if (error != std::errc() || rest != end)
    return Status(Code::kInvalidArgument,
                  fmt::format("faults: '{}={}' is not understood", name, value));
  if (name == "seed") {
    config.seed = whole;
  } else if (name == "delay_ns" && whole <= 1'000'000'000) {
    config.delay_ns = static_cast<Nanoseconds>(whole);
  } else if (name == "max_faults") {
    config.max_faults = whole;
  } else if (name == "last_epoch" && whole <= UINT16_MAX) {
    config.last_epoch = static_cast<transport::Epoch>(whole);
  } else {
    return Status(Code::kInvalidArgument,
                  fmt::format("faults: '{}={}' is not understood", name, value));
  }
  return {};
}

}  // namespace

Result<transport::FaultyConfig> parse_faults(std::string_view text) {
  transport::FaultyConfig config;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      return Status(Code::kInvalidArgument,
                    fmt::format("faults: '{}' is not of the form name=value", word));
    ASYNCMESH_RETURN_IF_ERROR(set_fault(config, word.substr(0, equals), word.substr(equals + 1)));
  }
  return config;
}

const EngineOffer::Address* EngineOffer::find(Engine engine) const {
  for (const Address& address : addresses) {
    if (address.engine == engine) return &address;
  }
  return nullptr;
}

std::vector<std::byte> encode(const EngineOffer& offer) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.u8(kVersion);
  out.u8(static_cast<uint8_t>(offer.choice));
  out.u8(static_cast<uint8_t>(offer.addresses.size()));
  for (const EngineOffer::Address& address : offer.addresses) {
    out.u8(static_cast<uint8_t>(address.engine));
    out.blob(address.bytes);
  }
  return bytes;
}

Result<EngineOffer> decode_engine_offer(std::span<const std::byte> bytes) {
  const Status malformed(Code::kMismatch, "the peer's transport addresses are not understood");
  ByteReader in(bytes);
  const uint8_t version = in.u8();
  const uint8_t choice = in.u8();
  const uint8_t count = in.u8();
  if (version != kVersion || choice > static_cast<uint8_t>(EngineChoice::kLoopback) ||
      count > kMaxAddresses)
    return malformed;
  EngineOffer offer;
  offer.choice = static_cast<EngineChoice>(choice);
  for (uint8_t i = 0; i < count; ++i) {
    const uint8_t engine = in.u8();
    const std::span<const std::byte> address = in.blob();
    if (engine < 1 || engine > static_cast<uint8_t>(Engine::kLoopback)) return malformed;
    offer.addresses.push_back({static_cast<Engine>(engine), {address.begin(), address.end()}});
  }
  if (!in.done()) return malformed;
  return offer;
}

Result<Engine> choose_engine(const EngineOffer& mine, const EngineOffer& theirs, bool same_host) {
  const auto both = [&](Engine engine) {
    return mine.find(engine) != nullptr && theirs.find(engine) != nullptr;
  };
  const bool i_force = mine.choice != EngineChoice::kAuto;
  const bool they_force = theirs.choice != EngineChoice::kAuto;
  if (i_force && they_force && mine.choice != theirs.choice)
    return Status(Code::kMismatch, fmt::format("engine {} is forced here, {} there",
                                               name_of(mine.choice), name_of(theirs.choice)));
  if (i_force || they_force) {
    const EngineChoice choice = i_force ? mine.choice : theirs.choice;
    const Engine engine = engine_of(choice);
    if (!both(engine))
      return Status(
          Code::kUnsupported,
          fmt::format("engine {} is forced on one end and missing on the other", name_of(choice)));
    return engine;
  }
  if (same_host && both(Engine::kRma)) return Engine::kRma;
  if (both(Engine::kTag)) return Engine::kTag;
  return Status(Code::kUnsupported, "the two ranks have no engine in common");
}

}  // namespace asyncmesh::core
