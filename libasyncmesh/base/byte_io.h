// Little-endian fields of control messages and metadata, without alignment or padding.
//
// ByteWriter appends to a vector that the caller owns. ByteReader walks over bytes that came from
// outside: it never reads past the end; the first field that does not fit makes `ok` false for
// good, and every later read returns zero or nothing, so a parser checks once, at its end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace asyncmesh {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie");

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  void u8(uint8_t value) { put(value); }
  void u16(uint16_t value) { put(value); }
  void u32(uint32_t value) { put(value); }
  void u64(uint64_t value) { put(value); }
  void i64(int64_t value) { put(value); }
  void f32(float value) { put(value); }
  void f64(double value) { put(value); }
  void raw(std::span<const std::byte> bytes) { append(bytes.data(), bytes.size()); }
  // A 32-bit length, then the bytes.
  void blob(std::span<const std::byte> bytes) {
    u32(static_cast<uint32_t>(bytes.size()));
    raw(bytes);
  }
  void text(std::string_view value) { blob(std::as_bytes(std::span(value.data(), value.size()))); }

 private:
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append(&value, sizeof value);
  }
  void append(const void* data, size_t bytes);

  std::vector<std::byte>& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint8_t u8() { return get<uint8_t>(); }
  uint16_t u16() { return get<uint16_t>(); }
  uint32_t u32() { return get<uint32_t>(); }
  uint64_t u64() { return get<uint64_t>(); }
  int64_t i64() { return get<int64_t>(); }
  float f32() { return get<float>(); }
  double f64() { return get<double>(); }
  // Views into the reader's bytes; empty when they do not fit.
  std::span<const std::byte> raw(size_t bytes) {
    if (!take(bytes)) return {};
    return bytes_.subspan(at_ - bytes, bytes);
  }
  std::span<const std::byte> blob() { return raw(u32()); }
  std::string text() {
    const std::span<const std::byte> bytes = blob();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  bool ok() const { return ok_; }
  size_t left() const { return ok_ ? bytes_.size() - at_ : 0; }
  // Every field fitted and nothing is left over.
  bool done() const { return ok_ && at_ == bytes_.size(); }

 private:
  bool take(size_t bytes) {
    if (!ok_ || bytes > bytes_.size() - at_) {
      ok_ = false;
      return false;
    }
    at_ += bytes;
    return true;
  }
  template <typename T>
  T get() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace asyncmesh
