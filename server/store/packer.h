// The argument map of a script, written field by field.
#ifndef FAIRGATE_SERVER_STORE_PACKER_H_
#define FAIRGATE_SERVER_STORE_PACKER_H_

#include <cstdint>
#include <msgpack.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/request.h"

namespace fairgate {

// A map whose size need not be known before: Finish() writes the head.
class MapPacker {
 public:
  MapPacker() : packer_(buffer_) {}

  void Text(std::string_view key, std::string_view value) {
    Key(key);
    String(value);
  }
  void Integer(std::string_view key, int64_t value) {
    Key(key);
    packer_.pack(value);
  }
  void Number(std::string_view key, double value) {
    Key(key);
    packer_.pack(value);
  }
  void Flag(std::string_view key, bool value) {
    if (!value) return;
    Key(key);
    packer_.pack(true);
  }
  void Map(std::string_view key, const Amounts& amounts) {
    Key(key);
    packer_.pack_map(static_cast<uint32_t>(amounts.size()));
    for (const auto& [name, amount] : amounts) {
      String(name);
      packer_.pack(amount);
    }
  }
  // A value that was packed elsewhere.
  void Raw(std::string_view key, std::string_view packed) {
    Key(key);
    buffer_.write(packed.data(), packed.size());
  }

  std::string Finish() const {
    msgpack::sbuffer head;
    msgpack::packer<msgpack::sbuffer>(head).pack_map(size_);
    return std::string(head.data(), head.size()) + std::string(buffer_.data(), buffer_.size());
  }

  static std::string Array(const std::vector<std::string>& packed) {
    msgpack::sbuffer head;
    msgpack::packer<msgpack::sbuffer>(head).pack_array(static_cast<uint32_t>(packed.size()));
    std::string out(head.data(), head.size());
    for (const std::string& element : packed) out += element;
    return out;
  }

 private:
  // Always str: the store's decoder knows no bin.
  void String(std::string_view text) {
    packer_.pack_str(static_cast<uint32_t>(text.size()));
    packer_.pack_str_body(text.data(), static_cast<uint32_t>(text.size()));
  }
  void Key(std::string_view key) {
    ++size_;
    String(key);
  }

  msgpack::sbuffer buffer_;
  msgpack::packer<msgpack::sbuffer> packer_;
  uint32_t size_ = 0;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_STORE_PACKER_H_
