#include "server/metrics/bounded_labels.h"

namespace fairgate {
namespace {

// A policy has at most 64 classes and 16 dimensions; names that were removed keep their series.
constexpr size_t kClassesMax = 128;
constexpr size_t kDimensionsMax = 32;

// The name itself if it is known, or may still become so.
const std::string& Learn(std::set<std::string>& names, const std::string& name, size_t max) {
  const auto found = names.find(name);
  if (found != names.end()) {
    return *found;
  }
  return names.size() < max ? *names.insert(name).first : BoundedLabels::Other();
}

}  // namespace

const std::string& BoundedLabels::Other() {
  static const auto* const other = new std::string("other");
  return *other;
}

BoundedLabels::BoundedLabels(size_t targets_max, const std::vector<std::string>& tenants)
    : targets_max_(targets_max), tenants_(tenants.begin(), tenants.end()) {}

const std::string& BoundedLabels::Target(const std::string& target, bool exists) {
  return Learn(targets_, target, exists ? targets_max_ : 0);
}

const std::string& BoundedLabels::Class(const std::string& target, const std::string& name) {
  return Learn(classes_[target], name, kClassesMax);
}

const std::string& BoundedLabels::Dimension(const std::string& target, const std::string& name) {
  return Learn(dimensions_[target], name, kDimensionsMax);
}

const std::string& BoundedLabels::Tenant(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? Other() : *found;
}

}  // namespace fairgate
