// Texts that came from outside, made fit for logs and error messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace asyncmesh::mesh {

// Control and non-ASCII bytes become '?' (a stranger must not forge log lines), and what is longer
// than `limit` is cut.
inline std::string printable(std::string_view text, size_t limit = 512) {
  std::string out(text.substr(0, limit));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

}  // namespace asyncmesh::mesh
