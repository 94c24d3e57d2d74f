#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "transport/paced/paced.h"

namespace asyncmesh::transport {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 6> kRates{
    {{"kbit", 125.0}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
constexpr std::array<Unit, 4> kDelays{{{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};

constexpr double kMaxRate = 1e12;   // bytes per second; far above any link, far below overflow
constexpr double kMaxDelay = 60e9;  // ns
constexpr uint64_t kMaxBurst = 64 * 1024;    // bytes
constexpr uint64_t kBurstsPerSecond = 1000;  // a burst is 1 ms of the rate

// A finite, non-negative number with one of the units, or nothing.
std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : units) {
    if (suffix == unit.name) return number * unit.factor;
  }
  return std::nullopt;
}

std::string format_quantity(double value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (value >= unit.factor) best = &unit;
  }
  return fmt::format("{:g}{}", value / best->factor, best->name);
}

}  // namespace

Result<PacedConfig> parse_link(std::string_view text) {
  const size_t comma = text.find(',');
  const std::string_view rate = text.substr(0, comma);
  PacedConfig config;
  if (rate != "none") {
    const auto value = parse_quantity(rate, kRates);
    if (!value || *value < 1 || *value > kMaxRate) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("link \"{}\": \"{}\" is not a rate such as 200Mbit, 1Gbit, 25MB or none",
                      text, rate));
    }
    config.bytes_per_second = static_cast<uint64_t>(std::llround(*value));
    config.burst_bytes = std::min(kMaxBurst, config.bytes_per_second / kBurstsPerSecond);
  }
  if (comma == std::string_view::npos) return config;
  const std::string_view delay = text.substr(comma + 1);
  const auto value = parse_quantity(delay, kDelays);
  if (!value || *value > kMaxDelay) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("link \"{}\": \"{}\" is not a delay such as 5ms, 100us or 0ms", text, delay));
  }
  config.latency = static_cast<Nanoseconds>(std::llround(*value));
  return config;
}

std::string format_link(const PacedConfig& config) {
  if (config.none()) return "none";
  const std::string rate = config.bytes_per_second == 0
                               ? "none"
                               : format_quantity(static_cast<double>(config.bytes_per_second),
                                                 std::span(kRates).first(3));
  return fmt::format("{},{}", rate, format_quantity(static_cast<double>(config.latency), kDelays));
}

}  // namespace asyncmesh::transport
