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
  /// Names of the enum's values.
  std::vector<std::string> names;
  /// Returns the name of the member's value.
  std::function<std::string()> get;
  /// Gives the member the value of a name, which is one of `names`.
  std::function<void(const std::string& name)> set;
};

/// A field of options whose type is not known.
struct OwnField {
  /// Address of a member, or the member by names.
  using Member = std::variant<bool*, Index*, std::uint64_t*, double*, std::string*, std::optional<bool>*,
                              std::optional<Index>*, std::optional<std::uint64_t>*, std::optional<double>*,
                              std::optional<std::string>*, NamedMember>;

  const char* key;  ///< Name of the field in files.
  Domain domain;    ///< Numbers that the field may hold.
  Member member;    ///< Member of the options that the field was made from.
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
  /// Name of the kind in files.
  virtual const char* name() const = 0;
  /// Fields of the options. They refer to members of this object.
  virtual std::vector<OwnField> fields() = 0;
  /// A copy of the options, whose fields may be changed.
  virtual std::shared_ptr<Kind> copy() const = 0;
};

/// Options of one own kind, with their type.
template <class Kind, class Options>
class OwnOptionsOf : public Kind {
 public:
  /// Holds a copy of the given options.
  explicit OwnOptionsOf(const Options& given) : options(given) {}
  /// Name of the kind in files.
  const char* name() const final { return Options::name; }
  /// Fields of the options. They refer to members of this object.
  std::vector<OwnField> fields() final { return own_fields(options); }
  /// A copy of the options, whose fields may be changed.
  std::shared_ptr<Kind> copy() const final {
    return std::make_shared<typename Kind::template Of<Options>>(options);
  }

  /// The program's options.
  Options options;
};

/// An alternative of a variant that holds options of any own kind. It is made of them, `OwnLayer(Scale{})`,
/// and never changes.
template <class Kind>
class OwnKind {
 public:
  /// Holds a copy of a program's options.
  template <class Options>
  requires(Kind::template fits<Options>) OwnKind(const Options& options)
      : OwnKind(std::make_shared<const typename Kind::template Of<Options>>(options)) {}
  /// Holds options whose type is not known.
  explicit OwnKind(std::shared_ptr<const Kind> options)
      : name(options->name()), options_(std::move(options)) {}

  /// The functions of the kind.
  const Kind* operator->() const { return options_.get(); }
  /// The options with their type; nullptr where the options have another type.
  template <class Options>
  const Options* get_if() const {
    const auto* found = dynamic_cast<const OwnOptionsOf<Kind, Options>*>(options_.get());
    return found == nullptr ? nullptr : &found->options;
  }

  /// The kinds that this program has registered, with their defaults.
  static const std::vector<OwnKind>& registered();

  /// Name of the kind in files.
  const char* name;

 private:
  std::shared_ptr<const Kind> options_;
};

}  // namespace orthornn
