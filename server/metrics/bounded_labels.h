// Which label stands for a name that comes from outside: series are never more than these bounds.
#ifndef FAIRGATE_SERVER_METRICS_BOUNDED_LABELS_H_
#define FAIRGATE_SERVER_METRICS_BOUNDED_LABELS_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fairgate {

// Labels that it returns live as long as this does, each at one address. Not thread-safe, but for
// what is const.
class BoundedLabels {
 public:
  static const std::string& Other();

  BoundedLabels(size_t targets_max, const std::vector<std::string>& tenants);

  // Targets are learnt only from answers that prove that they exist, so that made-up names fill
  // nothing.
  const std::string& Target(const std::string& target, bool exists);
  const std::string& Class(const std::string& target, const std::string& name);
  const std::string& Dimension(const std::string& target, const std::string& name);
  const std::string& Tenant(const std::string& tenant) const;
  bool lists_tenants() const { return !tenants_.empty(); }

 private:
  const size_t targets_max_;
  const std::set<std::string> tenants_;
  std::set<std::string> targets_;
  std::map<std::string, std::set<std::string>> classes_;  // by target
  std::map<std::string, std::set<std::string>> dimensions_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_METRICS_BOUNDED_LABELS_H_
