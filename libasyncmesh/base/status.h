// Status codes and Result<T>: how every part of the library reports failure.
//
// The numbers are those of asyncmesh.h (capi/ asserts it). Data-path functions return a bare Code;
// control-path functions return Status (code + text) or Result<T>. The text is made once, where the
// error is decided; callers may append context with `annotate`, never log it again. `kAgain`
// (back-pressure) is not an error and carries no text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace asyncmesh {

// X(name, value, text). Groups: call again (-1..), the call is wrong (-10..), the operation is lost
// (-20..), the peer is lost (-30..), the context is unusable (-40..).
#define ASYNCMESH_STATUS_LIST(X)                                               \
  X(Ok, 0, "ok")                                                               \
  X(Again, -1, "not now: full or nothing there; call again")                   \
  X(Timeout, -2, "the deadline passed; the operation may still complete")      \
  X(InvalidArgument, -10, "invalid argument")                                  \
  X(InvalidState, -11, "not legal now")                                        \
  X(Unsupported, -12, "not supported here")                                    \
  X(TooLarge, -13, "larger than the slot or the limit")                        \
  X(NoMemory, -14, "out of memory")                                            \
  X(Canceled, -20, "canceled: the port, mesh or context was closed")           \
  X(Mismatch, -21, "the ranks disagree: version, geometry or parameter table") \
  X(Refused, -22, "refused: authentication failed")                            \
  X(PeerLost, -30, "peer lost")                                                \
  X(LinkError, -31, "link error: the peer is alive, its data does not move")   \
  X(System, -40, "a system call or UCX failed")                                \
  X(Internal, -41, "internal error")

enum class Code : int32_t {
#define ASYNCMESH_STATUS_ENUM(name, value, text) k##name = value,
  ASYNCMESH_STATUS_LIST(ASYNCMESH_STATUS_ENUM)
#undef ASYNCMESH_STATUS_ENUM
};

// "ok", "peer lost", ...; "unknown status" for a number outside the list. Static storage.
std::string_view code_text(Code code) noexcept;
// "Ok", "PeerLost", ...; static storage.
std::string_view code_name(Code code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  explicit Status(Code code) : code_(code), text_(code_text(code)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

  // "context: text", the code unchanged.
  Status annotate(std::string_view context) && {
    if (!ok()) text_ = std::string(context) + ": " + text_;
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // implicit: factories `return value;`
  Result(Status status) : state_(std::move(status)) {}  // implicit: factories `return Status(...);`

  bool ok() const { return std::holds_alternative<T>(state_); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  // The status of a failed result; ok for a good one.
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  Code code() const { return ok() ? Code::kOk : std::get<Status>(state_).code(); }

 private:
  std::variant<T, Status> state_;
};

#define ASYNCMESH_RETURN_IF_ERROR(expression)                                          \
  do {                                                                                 \
    if (::asyncmesh::Status asyncmesh_status_ = (expression); !asyncmesh_status_.ok()) \
      return asyncmesh_status_;                                                        \
  } while (false)

}  // namespace asyncmesh
