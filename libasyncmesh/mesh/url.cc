#include "mesh/url.h"

#include <fmt/format.h>

#include <charconv>

#include "mesh/text.h"

namespace asyncmesh::mesh {

namespace {

Status bad(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("rendezvous url \"{}\": {}", printable(text), why)};
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kScheme = "tcp://";
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos) return bad(text, "expected tcp://host:port");
  if (text.substr(0, colon + 3) != kScheme) {
    return Status(Code::kUnsupported,
                  fmt::format("rendezvous url \"{}\": the scheme \"{}\" is not known, only tcp",
                              printable(text), printable(text.substr(0, colon))));
  }
  std::string_view rest = text.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);

  Url url;
  std::string_view port;
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad(text, "the ']' is missing");
    url.host = rest.substr(1, close - 1);
    if (url.host.find(':') == std::string::npos) return bad(text, "no IPv6 address in brackets");
    rest = rest.substr(close + 1);
    if (!rest.starts_with(':')) return bad(text, "the port is missing");
    port = rest.substr(1);
  } else {
    const size_t separator = rest.find(':');
    if (separator == std::string_view::npos) return bad(text, "the port is missing");
    if (rest.find(':', separator + 1) != std::string_view::npos) {
      return bad(text, "an IPv6 address needs brackets: tcp://[::1]:port");
    }
    url.host = rest.substr(0, separator);
    port = rest.substr(separator + 1);
  }
  if (url.host.empty()) return bad(text, "the host is missing");
  if (url.host.size() > 255) return bad(text, "the host is longer than 255 characters");
  for (const char c : url.host) {
    if (c <= ' ' || c > '~' || c == '/' || c == '@')
      return bad(text, "the host has odd characters");
  }
  const char* const end = port.data() + port.size();
  const auto [stop, error] = std::from_chars(port.data(), end, url.port);
  if (port.empty() || error != std::errc() || stop != end) {
    return bad(text, "the port must be a number from 0 to 65535");
  }
  return url;
}

std::string host_and_port(std::string_view host, uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace asyncmesh::mesh
