#include "commands/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "commands/program.hpp"
#include "commands/suggestion.hpp"
#include "core/fields_json.hpp"
#include "orthornn/text/normalization.hpp"

namespace orthornn::program {
/// What an assertion of toml++ throws.
struct NoToml {};
constexpr void assert_toml(bool holds) {
  if (!holds) throw NoToml();
}
}  // namespace orthornn::program

// toml++ 3.3 asserts some things of a text that it has not checked. "[#" fails one, and where assertions are
// off Clang takes it for impossible. So the assertions throw here, in every build.
#define TOML_ASSERT(condition) orthornn::program::assert_toml(static_cast<bool>(condition))
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace orthornn::program {
namespace {

enum class Kind { text, whole, number, boolean, other };

struct Entry {
  std::string key;
  std::string value;
  Kind kind;
  std::uint32_t line;
};

std::string read_text(const std::string& file) {
  constexpr std::size_t largest = 1 << 20;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    throw UsageError(fmt::format("there is no configuration file '{}'", file));
  if (std::filesystem::is_directory(file, ignored))
    throw UsageError(fmt::format("'{}' is a folder; expected a configuration file", file));
  std::ifstream input(file, std::ios::binary);
  if (!input) throw FileError(fmt::format("cannot read '{}': {}", file, std::strerror(errno)));
  std::string text(largest + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(input.gcount()));
  if (text.size() > largest)
    throw UsageError(fmt::format("the configuration file '{}' has more than {} bytes", file, largest));
  // A dot in a key is a table within a table, and toml++ calls itself once a level to remove them: 50,000
  // levels end the program.
  constexpr std::ptrdiff_t most_dots = 2000;
  if (std::count(text.begin(), text.end(), '.') > most_dots)
    throw UsageError(fmt::format("the configuration file '{}' has more than {} dots", file, most_dots));
  return text;
}

[[noreturn]] void refuse(const std::string& file, std::uint32_t line, const std::string& why) {
  throw UsageError(fmt::format("{}, line {}: {}", file, line, why));
}

/// What is before the sign of equality, without blanks.
std::string key_of(const std::string& line) {
  std::string key = line.substr(0, line.find('='));
  std::erase_if(key, [](char c) { return c == ' ' || c == '\t'; });
  return key;
}

/// Why toml++ has refused a line of the text.
std::string reason(const std::string& text, const toml::parse_error& error) {
  std::vector<std::string> lines(1);
  std::istringstream stream(text);
  while (lines.size() <= error.source().begin.line && std::getline(stream, lines.emplace_back())) continue;
  const std::string why(error.description());
  const std::string line = lines.back();
  const auto twin = std::find_if(lines.begin() + 1, lines.end(),
                                 [&](const std::string& other) { return key_of(other) == key_of(line); });
  if (why.find("redefine") != std::string::npos && twin + 1 < lines.end())
    return fmt::format("'{}' is given a second time, after line {}", key_of(line), twin - lines.begin());
  return fmt::format("expected 'key = value', found '{}': {}{}", line.substr(0, 60), why,
                     why.find("representable") == std::string::npos
                         ? ""
                         : "; a whole number above 2^63 - 1 stands in quotation marks");
}

/// A number that is no whole one, as 10.0. The sign # of fmt would do the same, but not in each of its
/// releases.
std::string toml_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

Entry entry_of(std::string key, const toml::node& node) {
  Entry entry{.key = std::move(key), .value = "", .kind = Kind::other, .line = node.source().begin.line};
  const auto is = [&](Kind kind, std::string value) {
    entry.kind = kind;
    entry.value = std::move(value);
  };
  if (const auto* text = node.as_string()) is(Kind::text, text->get());
  if (const auto* whole = node.as_integer()) is(Kind::whole, fmt::format("{}", whole->get()));
  if (const auto* number = node.as_floating_point()) is(Kind::number, toml_number(number->get()));
  if (const auto* boolean = node.as_boolean()) is(Kind::boolean, boolean->get() ? "true" : "false");
  if (entry.kind == Kind::other) entry.value = node.is_array() ? "an array" : "a date or a time";
  return entry;
}

/// The key of the tables of layers.
constexpr const char* layer_key = "layer";

/// `file` is its name in messages.
toml::table table_of(const std::string& text, const std::string& file) {
  // It would end a message, a path and a number too early.
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n');
    refuse(file, static_cast<std::uint32_t>(line), "a byte 0; expected 'key = value' as text");
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    refuse(file, error.source().begin.line, reason(text, error));
  } catch (const NoToml&) {
    throw UsageError(
        fmt::format("{} is no TOML: a '[' without the name of a table; expected 'key = value' or [[{}]]",
                    file, layer_key));
  }
}

toml::table read_table(const std::string& file) { return table_of(read_text(file), file); }

/// Those that are no layers, in the order of the lines.
std::vector<Entry> read_entries(const std::string& file) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : read_table(file)) {
    if (key.str() == layer_key && node.is_array_of_tables()) continue;
    if (node.is_table() || node.is_array_of_tables()) {
      refuse(file, node.source().begin.line,
             fmt::format("the table '{}'; expected 'key = value', or [[{}]] tables", key.str(), layer_key));
    }
    entries.push_back(entry_of(std::string(key.str()), node));
    if ((entries.back().key + entries.back().value).find('\0') != std::string::npos)
      refuse(file, entries.back().line, "a character \\u0000; expected text without one");
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return entries;
}

/// The value as a message shows it: text in quotation marks.
std::string found_text(const Entry& entry) {
  return entry.kind == Kind::text ? fmt::format("the text \"{}\"", entry.value) : entry.value;
}

/// What the option takes from a file, by the name that the command line gives its type.
struct Wanted {
  const char* words;
  std::vector<Kind> kinds;
};
Wanted wanted_by(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (option.get_expected_max() == 0) return {"true or false", {Kind::boolean}};
  if (type.starts_with("TEXT")) return {"text in quotation marks", {Kind::text}};
  if (type.starts_with("FLOAT")) return {"a number", {Kind::whole, Kind::number}};
  if (type.starts_with("INT")) return {"a whole number", {Kind::whole}};
  return {"a whole number, in quotation marks above 2^63 - 1", {Kind::whole, Kind::text}};
}

/// "key = value"
std::string toml_line(const std::string& key, const CLI::Option& option) {
  const std::string value = option.get_default_str();
  const std::string type = option.get_type_name();
  // TOML's integers end at 2^63 - 1, so larger seeds are text.
  const bool is_text =
      type.starts_with("TEXT") || (type.starts_with("UINT") && std::stoull(value) >> 63 != 0);
  if (!is_text) return fmt::format("{} = {}", key, value);
  std::ostringstream line;
  line << toml::toml_formatter(toml::table{{key, value}}, toml::format_flags::allow_unicode_strings);
  return line.str();
}

/// The tables of layers, as the one field of an options type.
struct LayerTables {
  std::vector<LayerOptions> layers;

  static void fields(auto&& visit) {
    visit(layer_key, &LayerTables::layers, domain::any, "Layers, one on the other");
  }
};

Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& element : *array) list.push_back(json_of(element));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  return Json();  // a date, which no field is
}

/// Adds the members of a JSON object to a table.
void add_members(const Json& object, toml::table& table);

toml::array toml_of(const Json& list) {
  toml::array array;
  for (const Json& element : list) {
    toml::table table;
    add_members(element, table);
    array.push_back(std::move(table));
  }
  return array;
}

void add_members(const Json& object, toml::table& table) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) table.insert(key, value.get<std::string>());
    if (value.is_boolean()) table.insert(key, value.get<bool>());
    if (value.is_number_integer()) table.insert(key, value.get<std::int64_t>());
    if (value.is_number_float()) table.insert(key, value.get<double>());
    if (value.is_array()) table.insert(key, toml_of(value));
    if (value.is_object()) {
      toml::table inner;
      add_members(value, inner);
      inner.is_inline(true);
      table.insert(key, std::move(inner));
    }
  }
}

/// Throws ValueError for a key of the tables `given` that no field of what was `read` from them has.
void check_keys(const std::string& place, const Json& given, const Json& read) {
  if (given.is_array() && read.is_array()) {
    for (std::size_t i = 0; i < given.size() && i < read.size(); ++i)
      check_keys(fmt::format("{} {}", place, i + 1), given[i], read[i]);
  }
  if (!given.is_object() || !read.is_object()) return;
  for (const auto& [key, value] : given.items()) {
    if (read.contains(key)) {
      check_keys(key == "layers" ? fmt::format("{}, layer", place) : fmt::format("{}, {}", place, key), value,
                 read.at(key));
      continue;
    }
    std::vector<std::string> keys;
    for (const auto& member : read.items()) keys.push_back(member.key());
    throw ValueError(fmt::format("{} has no setting '{}'; it has {}{}", place, key, fmt::join(keys, ", "),
                                 did_you_mean(key, keys)));
  }
}

/// Files from before there was beta_offset say where the learned biases of step sizes began.
void note_bias(const std::string& file) {
  note(fmt::format(
      "'beta-bias' in '{}' is ignored: a saved model has its learned bias; in a new one the constant that "
      "--beta-offset gives stands in its place",
      file));
}

/// Takes beta_bias out of the tables; whether one was not 0.
bool take_bias(Json& value) {
  bool found = false;
  if (value.is_object() && value.value("kind", Json()) == DeltaProductCell::name) {
    found = value.value("beta_bias", Json(0)) != 0;
    value.erase("beta_bias");
  }
  if (value.is_structured()) {
    for (Json& inner : value) found = take_bias(inner) || found;
  }
  return found;
}

/// Throws ValueError for tables that are no layers.
std::vector<LayerOptions> layers_of_tables(const Json& layers) {
  LayerTables tables;
  read_fields(Json{{layer_key, layers}}, tables, MissingField::has_its_default);
  check_keys(layer_key, layers, json_value(tables.layers));
  return tables.layers;
}

bool are_layers(const Json& layers) {
  try {
    layers_of_tables(layers);
    return true;
  } catch (const ValueError&) {
    return false;
  }
}

}  // namespace

std::vector<LayerOptions> layers_in(const std::string& file) {
  const toml::table table = read_table(file);
  const toml::node* node = table.get(layer_key);
  if (node == nullptr || !node->is_array_of_tables()) return {};
  Json layers = json_of(*node);
  if (take_bias(layers)) note_bias(file);
  try {
    return layers_of_tables(layers);
  } catch (const ValueError& error) {
    // The first table that is refused alone; where none is, they are refused together.
    std::uint32_t line = node->source().begin.line;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (are_layers(Json::array({layers[i]}))) continue;
      line = node->as_array()->get(i)->source().begin.line;
      break;
    }
    refuse(file, line, error.what());
  }
}

std::string layers_text(const std::vector<LayerOptions>& layers) {
  std::ostringstream text;
  toml::table table;
  table.insert(layer_key, toml_of(json_value(layers)));
  text << toml::toml_formatter(table) << "\n";
  return text.str();
}

Json settings_in(const std::string& file) { return json_of(read_table(file)); }

Json settings_of(const std::string& text) { return json_of(table_of(text, "config.toml")); }

std::string setting_in(const std::string& file, const std::string& key) {
  for (const Entry& entry : read_entries(file)) {
    if (entry.key == key) return entry.value;
  }
  return "";
}

bool read_config(CLI::App& command, const std::string& file) {
  bool has_out = false;
  std::set<const CLI::Option*> on_command_line;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) on_command_line.insert(option);
  }
  for (const Entry& entry : read_entries(file)) {
    const std::vector<CLI::Option*> options = command.get_options(
        [&](const CLI::Option* o) { return o->get_configurable() && o->get_single_name() == entry.key; });
    if (options.empty() && entry.key == "out") {  // run directories of earlier versions have it
      has_out = true;
      continue;
    }
    if (options.empty() && entry.key == "beta-bias") {
      if (entry.value != "0") note_bias(file);
      continue;
    }
    if (options.empty()) {
      std::vector<std::string> keys;
      for (const CLI::Option* option : command.get_options()) {
        if (option->get_configurable()) keys.push_back(option->get_single_name());
      }
      refuse(file, entry.line,
             fmt::format("there is no setting '{}'{}", entry.key, did_you_mean(entry.key, keys)));
    }
    CLI::Option& option = *options.front();
    // The command line has the last word: on this setting, and on one that stands for it (--steps and
    // --epochs).
    bool decided = on_command_line.count(&option) > 0;
    for (const CLI::Option* other : option.get_excludes()) {
      decided = decided || on_command_line.count(other) > 0;
      if (!decided && other->count() > 0) {
        refuse(file, entry.line,
               fmt::format("'{}' excludes '{}'; only one of them can be given", entry.key,
                           other->get_single_name()));
      }
    }
    if (decided) continue;
    const Wanted wanted = wanted_by(option);
    if (std::count(wanted.kinds.begin(), wanted.kinds.end(), entry.kind) == 0)
      refuse(file, entry.line,
             fmt::format("'{}' is {}; expected {}", entry.key, found_text(entry), wanted.words));
    try {
      option.add_result(entry.value);
      option.run_callback();
    } catch (const CLI::Error& error) {
      refuse(file, entry.line, error.what());
    }
  }
  return has_out;
}

std::string config_text(CLI::App& command, const std::string& without) {
  std::string text;
  for (CLI::Option* option : command.get_options()) {
    if (!option->get_configurable() || option->get_name() == "--help") continue;
    if (option->get_name() == "--epochs") continue;  // steps says it
    if (option->get_group() == without) continue;
    option->capture_default_str();
    if (option->get_default_str().empty()) continue;    // left out
    if (!is_utf8(option->get_default_str())) continue;  // TOML cannot hold it
    text += toml_line(option->get_single_name(), *option) + "\n";
  }
  return text;
}

}  // namespace orthornn::program
