// The struct_size rule, as expectations on one function: 0 and too small are refused, an unknown
// tail is refused where it is set (inputs) or zeroed (outputs).
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "capi/ranks.h"

namespace asyncmesh_test {

inline constexpr size_t kTail = 24;

// A struct of a caller that is newer than the library.
template <typename T>
struct Longer {
  T known;
  unsigned char tail[kTail] = {};
};

inline std::string last_error() { return asyncmesh_last_error(); }

// An input struct: `call` gets a pointer to it. `accepted` is what a good one answers.
template <typename T, typename Call>
void expect_in_rule(const char* name, const T& good, Call call,
                    std::initializer_list<asyncmesh_status_t> accepted = {ASYNCMESH_OK}) {
  SCOPED_TRACE(name);
  for (const uint32_t size : {0u, 3u, static_cast<uint32_t>(sizeof(T) - 1), 1u << 20}) {
    T bad = good;
    bad.struct_size = size;
    EXPECT_EQ(call(&bad), ASYNCMESH_INVALID_ARGUMENT) << size;
    EXPECT_NE(last_error().find("struct_size"), std::string::npos) << last_error();
  }
  Longer<T> longer{good};
  longer.known.struct_size = sizeof longer;
  longer.tail[kTail - 1] = 1;
  EXPECT_EQ(call(&longer.known), ASYNCMESH_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("not zero"), std::string::npos) << last_error();
  longer.tail[kTail - 1] = 0;
  const asyncmesh_status_t status = call(&longer.known);
  EXPECT_NE(std::find(accepted.begin(), accepted.end(), status), accepted.end())
      << asyncmesh_status_name(status) << " " << last_error();
}

// An output struct: written as far as both know it, the rest zeroed.
template <typename T, typename Call>
void expect_filled(Call call) {
  for (const uint32_t size : {0u, 3u, static_cast<uint32_t>(sizeof(T) - 1), 1u << 20}) {
    T bad = {};
    bad.struct_size = size;
    EXPECT_EQ(call(&bad), ASYNCMESH_INVALID_ARGUMENT) << size;
    EXPECT_EQ(bad.struct_size, size);
  }
  Longer<T> longer = {};
  longer.known.struct_size = sizeof longer;
  std::fill(longer.tail, longer.tail + kTail, static_cast<unsigned char>(0xee));
  EXPECT_EQ(call(&longer.known), ASYNCMESH_OK) << last_error();
  EXPECT_EQ(longer.known.struct_size, sizeof longer);
  for (const unsigned char byte : longer.tail) EXPECT_EQ(byte, 0);
}
template <typename T, typename Call>
void expect_out_rule(const char* name, Call call) {
  SCOPED_TRACE(name);
  EXPECT_EQ(call(static_cast<T*>(nullptr)), ASYNCMESH_INVALID_ARGUMENT);
  expect_filled<T>(call);
}

inline void expect_null(asyncmesh_status_t status, const char* what) {
  EXPECT_EQ(status, ASYNCMESH_INVALID_ARGUMENT) << what;
  EXPECT_NE(last_error().find("null"), std::string::npos) << what << ": " << last_error();
}
#define EXPECT_NULL(call) expect_null(call, #call)

}  // namespace asyncmesh_test
