#include "server/valkey/reply.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <iterator>

namespace fairgate {

bool CannotServe(std::string_view error) {
  static constexpr std::string_view kCodes[] = {
      "LOADING", "READONLY",    "BUSY",       "OOM",        "MOVED",
      "ASK",     "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN"};
  const std::string_view code = error.substr(0, error.find(' '));
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

Reply ToReply(const redisReply& from) {
  Reply to;
  switch (from.type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      to.type = Reply::Type::kString;
      to.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ERROR:
      to.type = Reply::Type::kError;
      to.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_INTEGER:
      to.type = Reply::Type::kInteger;
      to.integer = from.integer;
      break;
    case REDIS_REPLY_ARRAY:
      to.type = Reply::Type::kArray;
      for (size_t i = 0; i < from.elements; ++i) to.elements.push_back(ToReply(*from.element[i]));
      break;
    default:
      break;
  }
  return to;
}

}  // namespace fairgate
