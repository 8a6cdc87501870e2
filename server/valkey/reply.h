// What a Valkey server answers to one command.
#ifndef FAIRGATE_SERVER_VALKEY_REPLY_H_
#define FAIRGATE_SERVER_VALKEY_REPLY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct redisReply;

namespace fairgate {

struct Reply {
  enum class Type { kNil, kString, kInteger, kArray, kError };
  Type type = Type::kNil;
  std::string text;  // kString (also simple strings) and kError
  int64_t integer = 0;
  std::vector<Reply> elements;
};

Reply ToReply(const redisReply& from);

// Is this error about the server's condition (LOADING, READONLY ...)? Then it is there but cannot
// serve now, and nothing of the error is a verdict.
bool CannotServe(std::string_view error);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_REPLY_H_
