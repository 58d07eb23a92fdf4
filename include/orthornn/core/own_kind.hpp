#pragma once
// Options of the kinds that a program has beside those of orthornn. The library sees them without their type:
// a name, fields, and the functions of a `Kind`, which says what kinds are for (layers/own_layer.hpp,
// orthogonal/own_transition.hpp).

#include <functional>
#include <memory>
#include <type_traits>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// A member that is a value of an enum, by the values' names.
struct NamedMember {
  std::vector<std::string> names;
  std::function<std::string()> get;
  /// `name` is one of `names`.
  std::function<void(const std::string& name)> set;
};

/// A member of options whose type is not known.
struct OwnField {
  using Member = std::variant<bool*, Index*, std::uint64_t*, double*, std::string*, std::optional<bool>*,
                              std::optional<Index>*, std::optional<std::uint64_t>*, std::optional<double>*,
                              std::optional<std::string>*, NamedMember>;

  const char* key;
  Domain domain;
  Member member;
};

/// The fields of options, which refer to their members.
template <HasFields Options>
std::vector<OwnField> own_fields(Options& options) {
  std::vector<OwnField> list;
  Options::fields([&](const char* key, auto member, const Domain& domain, const char*) {
    auto& value = options.*member;
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_enum_v<Value>) {
      list.push_back({key, domain,
                      NamedMember{names_of<Value>(), [&value] { return name_of(value); },
                                  [&value](const std::string& name) { value = parse<Value>(name); }}});
    } else {
      static_assert(std::is_constructible_v<OwnField::Member, Value*>,
                    "a field of an own kind is a bool, Index, std::uint64_t, double, std::string, an "
                    "optional of one of them, or an enum with Names");
      list.push_back({key, domain, &value});
    }
  });
  return list;
}

/// Whether options derive from an alternative of the variant, as which the variant would take them.
template <class Options, class... Alternatives>
constexpr bool derives_from_alternative(std::type_identity<std::variant<Alternatives...>>) {
  return (std::is_base_of_v<Alternatives, Options> || ...);
}

/// Options of an own kind, without their type. A `Kind` derives from OwnOptions<Kind> and adds what its kinds
/// are for. It has a template `fits<Options>`, which says whether a struct can be one, and a class template
/// `Of<Options>`, which derives from OwnOptionsOf<Kind, Options>.
template <class Kind>
class OwnOptions {
 public:
  virtual ~OwnOptions() = default;
  virtual const char* name() const = 0;
  /// They refer to this object.
  virtual std::vector<OwnField> fields() = 0;
  virtual std::shared_ptr<Kind> copy() const = 0;
};

template <class Kind, class Options>
class OwnOptionsOf : public Kind {
 public:
  explicit OwnOptionsOf(const Options& given) : options(given) {}
  const char* name() const final { return Options::name; }
  std::vector<OwnField> fields() final { return own_fields(options); }
  std::shared_ptr<Kind> copy() const final {
    return std::make_shared<typename Kind::template Of<Options>>(options);
  }

  Options options;
};

/// An alternative of a variant that holds options of any own kind. It is made of them, `OwnLayer(Scale{})`,
/// and never changes.
template <class Kind>
class OwnKind {
 public:
  template <class Options>
  requires(Kind::template fits<Options>) OwnKind(const Options& options)
      : OwnKind(std::make_shared<const typename Kind::template Of<Options>>(options)) {}
  explicit OwnKind(std::shared_ptr<const Kind> options)
      : name(options->name()), options_(std::move(options)) {}

  const Kind* operator->() const { return options_.get(); }
  /// nullptr where the options have another type.
  template <class Options>
  const Options* get_if() const {
    const auto* found = dynamic_cast<const OwnOptionsOf<Kind, Options>*>(options_.get());
    return found == nullptr ? nullptr : &found->options;
  }

  /// The kinds that this program has registered, with their defaults.
  static const std::vector<OwnKind>& registered();

  const char* name;

 private:
  std::shared_ptr<const Kind> options_;
};

}  // namespace orthornn
