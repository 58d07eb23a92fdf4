// What the lists of fields promise: every member is listed, survives the journey through JSON, keeps to its
// domain, and has the name that files have.

#include "orthornn/core/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>

#include "core/fields_json.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/error_message.hpp"

namespace orthornn::testing {
namespace {

/// Stands for a member of any type.
struct AnyValue {
  template <class T>
  operator T() const {
    return T{};
  }
};

template <class Options, class... Values>
constexpr std::size_t member_count() {
  if constexpr (requires { Options{Values{}..., AnyValue{}}; }) {
    return member_count<Options, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

template <class Options>
std::vector<std::string> keys_of() {
  std::vector<std::string> keys;
  Options::fields([&](const char* key, auto&&...) { keys.emplace_back(key); });
  return keys;
}

/// Another value of the same kind, within the domain.
template <class Value>
void change(Value& value, const Domain& domain) {
  if constexpr (std::is_same_v<Value, bool>) {
    value = !value;
  } else if constexpr (is_a<Value, std::optional>) {
    value = value.value_or(0) + 0.375;
  } else if constexpr (std::is_same_v<Value, double>) {
    value = value == 0.375 ? 0.4375 : 0.375;
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value += "x";
  } else if constexpr (is_number<Value>) {
    value += domain.low < domain.high ? 3 : 0;
  } else if constexpr (std::is_same_v<Value, std::vector<LayerOptions>>) {
    value.emplace_back(Lstm{3});  // a layer that is made of layers would never end
  } else if constexpr (is_a<Value, std::vector>) {
    value.push_back({});
    for (auto& element : value) change(element, domain);
  } else if constexpr (HasNames<Value> && !is_a<Value, std::variant>) {
    const Value before = value;
    for (const auto& choice : Names<Value>::list) value = choice.value == before ? value : choice.value;
  } else if constexpr (is_a<Value, std::variant>) {
    const std::string before = name_of(value);
    for (const auto& choice : Names<Value>::list) value = choice.name == before ? value : choice.value;
    std::visit(
        [&](auto& options) {
          if constexpr (HasFields<std::decay_t<decltype(options)>>) change(options, domain);
        },
        value);
  } else {
    Value::fields(
        [&](const char*, auto member, const Domain& own, const char*) { change(value.*member, own); });
  }
}

template <class Options>
void check_round_trip() {
  CAPTURE(keys_of<Options>());
  Options options, found;
  change(options, domain::any);
  const Json json = json_object(options), defaults = json_object(Options{});
  Options::fields([&](const char* key, auto, const Domain& own, const char* help) {
    CAPTURE(key, json.dump());
    // A field that keeps its default would survive anything.
    CHECK((json.at(key) != defaults.value(key, Json()) || own.low == own.high));
    CHECK(std::string_view(help).size() > 3);
  });
  read_fields(parse_json(json.dump()), found);
  CHECK(json_object(found).dump() == json.dump());
  // A key for each field, and the name.
  CHECK(json.size() == keys_of<Options>().size() + (requires { Options::name; } ? 1 : 0));
  for (const std::string& key : keys_of<Options>()) {
    Json without = json;
    without.erase(key);
    Options lenient;
    CHECK_NOTHROW(read_fields(without, lenient, MissingField::has_its_default));
  }
}

/// All alternatives but the own kinds, which have tests of their own (own_layer_test.cpp).
template <class... Options>
void check_all(std::type_identity<std::variant<Options...>>) {
  std::apply([]<class... Named>(const Named&...) { (check_round_trip<Named>(), ...); },
             NamedAlternatives<Options...>());
}

/// Says by its message that a number outside the domain is refused.
template <class Options>
std::string refusal(const char* key, const Json& value) {
  Json json = json_object(Options{});
  json[key] = value;
  Options options;
  return error_message<ValueError>([&] { read_fields(json, options); });
}

/// Its optional has a value by default.
struct WithLimit {
  std::optional<double> limit = 1.0;

  static void fields(auto&& visit) { visit("limit", &WithLimit::limit, domain::any, "A number"); }
};

}  // namespace

TEST_CASE("every options type survives the journey through JSON with every field changed", "[fields]") {
  check_all(std::type_identity<TransitionOptions>());
  check_all(std::type_identity<LayerOptions::variant>());
  check_all(std::type_identity<InputOptions>());
  check_all(std::type_identity<ReadoutOptions>());
  check_all(std::type_identity<OptimizerOptions>());
  check_all(std::type_identity<TaskOptions>());
  check_round_trip<ModelOptions>();
  check_round_trip<Schedule>();
  check_round_trip<TrainerOptions>();
  check_round_trip<TaskSource>();
}

TEST_CASE("every member of an options type is a field", "[fields]") {
  const auto check = []<class Options>(std::type_identity<Options>) {
    const std::vector<std::string> keys = keys_of<Options>();
    CAPTURE(keys);
    CHECK(keys.size() == member_count<Options>());
    CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == keys.size());
  };
  const auto check_each = [&]<class... Options>(std::type_identity<std::variant<Options...>>) {
    std::apply([&]<class... Named>(const Named&...) { (check(std::type_identity<Named>()), ...); },
               NamedAlternatives<Options...>());
  };
  check_each(std::type_identity<TransitionOptions>());
  check_each(std::type_identity<LayerOptions::variant>());
  check_each(std::type_identity<InputOptions>());
  check_each(std::type_identity<ReadoutOptions>());
  check_each(std::type_identity<OptimizerOptions>());
  check(std::type_identity<ModelOptions>());
  check(std::type_identity<Schedule>());
  check(std::type_identity<TrainerOptions>());
  // Tasks leave theirs to the source: batch and seed, and MNIST its folder, its order and its parts.
  CHECK(keys_of<CopyingOptions>().size() == member_count<CopyingOptions>() - 2);
  CHECK(keys_of<AddingOptions>().size() == member_count<AddingOptions>() - 2);
  CHECK(keys_of<LanguageOptions>().size() == member_count<LanguageOptions>() - 2);
  CHECK(keys_of<RecallOptions>().size() == member_count<RecallOptions>() - 2);
  CHECK(keys_of<VideoOptions>().size() == member_count<VideoOptions>() - 4);
  CHECK(keys_of<WordsOptions>().size() == member_count<WordsOptions>() - 2);
  CHECK(keys_of<MnistOptions>().size() == member_count<MnistOptions>() - 5);
  CHECK(keys_of<SequencesOptions>().size() == member_count<SequencesOptions>() - 6);
}

TEST_CASE("the names in files are these", "[fields]") {
  using Pairs = std::vector<std::pair<std::string, int>>;
  const auto pairs = []<class Enum>(std::type_identity<Enum>) {
    Pairs found;
    for (const auto& choice : Names<Enum>::list) {
      found.emplace_back(choice.name, static_cast<int>(choice.value));
      CHECK(name_of(choice.value) == choice.name);
      CHECK(parse<Enum>(choice.name) == choice.value);
    }
    return found;
  };
  const auto is = [](auto value) { return static_cast<int>(value); };
  CHECK(pairs(std::type_identity<Init>()) == Pairs{{"henaff", is(Init::henaff)},
                                                   {"cayley", is(Init::cayley)},
                                                   {"haar", is(Init::haar)},
                                                   {"normal", is(Init::normal)}});
  CHECK(pairs(std::type_identity<ReflectionForm>()) == Pairs{{"automatic", is(ReflectionForm::automatic)},
                                                             {"dense", is(ReflectionForm::dense)},
                                                             {"factored", is(ReflectionForm::factored)},
                                                             {"sequential", is(ReflectionForm::sequential)}});
  CHECK(pairs(std::type_identity<Activation>()) == Pairs{{"tanh", is(Activation::tanh)},
                                                         {"relu", is(Activation::relu)},
                                                         {"abs", is(Activation::abs)},
                                                         {"modrelu", is(Activation::modrelu)},
                                                         {"identity", is(Activation::identity)}});
  CHECK(pairs(std::type_identity<InputMatrix>()) == Pairs{{"free", is(InputMatrix::free)},
                                                          {"stiefel", is(InputMatrix::stiefel)},
                                                          {"own", is(InputMatrix::own)},
                                                          {"matrix", is(InputMatrix::matrix)}});
  CHECK(pairs(std::type_identity<Loss>()) ==
        Pairs{{"softmax_cross_entropy", is(Loss::softmax_cross_entropy)},
              {"mean_squared_error", is(Loss::mean_squared_error)},
              {"absolute_and_squared_error", is(Loss::absolute_and_squared_error)}});
  CHECK(pairs(std::type_identity<HiddenKernel>()) == Pairs{{"stiefel", is(HiddenKernel::stiefel)},
                                                           {"own", is(HiddenKernel::own)},
                                                           {"matrix", is(HiddenKernel::matrix)},
                                                           {"glorot", is(HiddenKernel::glorot)},
                                                           {"orthogonal", is(HiddenKernel::orthogonal)},
                                                           {"zeros", is(HiddenKernel::zeros)}});
  CHECK(pairs(std::type_identity<StiefelSgd::Metric>()) ==
        Pairs{{"canonical", is(StiefelSgd::Metric::canonical)},
              {"euclidean", is(StiefelSgd::Metric::euclidean)}});
  CHECK(pairs(std::type_identity<StiefelSgd::Retraction>()) ==
        Pairs{{"qr", is(StiefelSgd::Retraction::qr)}, {"cayley", is(StiefelSgd::Retraction::cayley)}});
  CHECK(pairs(std::type_identity<Schedule::Kind>()) == Pairs{{"constant", is(Schedule::Kind::constant)},
                                                             {"cosine", is(Schedule::Kind::cosine)},
                                                             {"step", is(Schedule::Kind::step)}});
  CHECK(pairs(std::type_identity<Precision>()) ==
        Pairs{{"fp32", is(Precision::fp32)}, {"tf32", is(Precision::tf32)}, {"bf16", is(Precision::bf16)}});
  CHECK(pairs(std::type_identity<RolloutWay>()) == Pairs{{"automatic", is(RolloutWay::automatic)},
                                                         {"resident", is(RolloutWay::resident)},
                                                         {"cluster", is(RolloutWay::cluster)},
                                                         {"grid", is(RolloutWay::grid)},
                                                         {"stepwise", is(RolloutWay::stepwise)}});
  CHECK(pairs(std::type_identity<Clips>()) ==
        Pairs{{"squares", is(Clips::squares)}, {"mnist", is(Clips::mnist)}, {"own", is(Clips::own)}});
  CHECK(pairs(std::type_identity<Alphabet>()) ==
        Pairs{{"all", is(Alphabet::all)}, {"swaps", is(Alphabet::swaps)}, {"random", is(Alphabet::random)}});
  CHECK(pairs(std::type_identity<Language>()) == Pairs{{"parity", is(Language::parity)},
                                                       {"even-pairs", is(Language::even_pairs)},
                                                       {"modular", is(Language::modular)},
                                                       {"modular-brackets", is(Language::modular_brackets)},
                                                       {"cycle", is(Language::cycle)}});
  check_says<ValueError>([] { parse<Activation>("gelu"); }, {"gelu", "tanh, relu, abs, modrelu or identity"});
}

TEST_CASE("an alternative's name goes with its type", "[fields]") {
  CHECK(name_of(TransitionOptions(Cwy{})) == "cwy");
  CHECK(name_of(TransitionOptions(HouseholderProduct{})) == "householder");
  CHECK(name_of(TransitionOptions(ScaledCayley{})) == "cayley");
  CHECK(name_of(TransitionOptions(MatrixExponential{})) == "expm");
  CHECK(name_of(TransitionOptions(WeightNormalization{})) == "own");
  CHECK(name_of(TransitionOptions(OrthogonalMatrix{})) == "matrix");
  CHECK(name_of(TransitionOptions(Unconstrained{})) == "free");
  CHECK(name_of(LayerOptions(OrthogonalCell{})) == "orthogonal");
  CHECK(name_of(LayerOptions(Lstm{})) == "lstm");
  CHECK(name_of(LayerOptions(Gru{})) == "gru");
  CHECK(name_of(LayerOptions(ConvNeru{})) == "convneru");
  CHECK(name_of(LayerOptions(ConvLstm{})) == "convlstm");
  CHECK(name_of(LayerOptions(Linear{})) == "linear");
  CHECK(name_of(LayerOptions(OrthogonalLinear{})) == "orthogonal_linear");
  CHECK(name_of(LayerOptions(OrthogonalConv{})) == "orthogonal_conv");
  CHECK(name_of(LayerOptions(RmsNorm{})) == "rms_norm");
  CHECK(name_of(LayerOptions(Dropout{})) == "dropout");
  CHECK(name_of(LayerOptions(Residual{})) == "residual");
  CHECK(name_of(LayerOptions(Bidirectional{})) == "bidirectional");
  CHECK(name_of(InputOptions(DenseInput{})) == "dense");
  CHECK(name_of(InputOptions(OneHot{})) == "one_hot");
  CHECK(name_of(InputOptions(TokenEmbedding{})) == "embedding");
  CHECK(name_of(ReadoutOptions(EveryStep{})) == "every_step");
  CHECK(name_of(ReadoutOptions(LastStep{})) == "last_step");
  CHECK(name_of(ReadoutOptions(EveryPixel{})) == "every_pixel");
  CHECK(name_of(OptimizerOptions(Sgd{})) == "sgd");
  CHECK(name_of(OptimizerOptions(RmsProp{})) == "rmsprop");
  CHECK(name_of(OptimizerOptions(Adam{})) == "adam");
  CHECK(name_of(OptimizerOptions(AdamW{})) == "adamw");
  CHECK(name_of(OptimizerOptions(Rgd{})) == "rgd");
  CHECK(name_of(OptimizerOptions(RgdAdam{})) == "rgd-adam");
  CHECK(name_of(TaskOptions(AddingOptions{})) == "adding");
  CHECK(name_of(TaskOptions(CopyingOptions{})) == "copying");
  CHECK(name_of(TaskOptions(LanguageOptions{})) == "language");
  CHECK(name_of(TaskOptions(MnistOptions{})) == "mnist");
  CHECK(name_of(TaskOptions(RecallOptions{})) == "recall");
  CHECK(name_of(TaskOptions(SequencesOptions{})) == "sequences");
  CHECK(name_of(TaskOptions(VideoOptions{})) == "video");
  CHECK(name_of(TaskOptions(WordsOptions{})) == "words");
  CHECK(std::get<ScaledCayley>(parse<TransitionOptions>("cayley")).init == Init::cayley);
  check_says<ValueError>([] { parse<OptimizerOptions>("lbfgs"); },
                         {"lbfgs", "sgd, rmsprop, adam, adamw, rgd or rgd-adam"});
}

TEST_CASE("options of a model file are read, and written with the same keys", "[fields]") {
  // As recorded, key by key and in their order.
  const std::string model =
      R"({"input":{"kind":"embedding","tokens":7,"size":3},"cells":[)"
      R"({"kind":"orthogonal","hidden_size":6,"transition":{"kind":"cwy","reflections":2,"form":"factored","init":"haar"},)"
      R"("activation":"abs","input_matrix":"stiefel","learn_initial_state":true},)"
      R"({"kind":"orthogonal","hidden_size":5,"transition":{"kind":"householder","reflections":3,"rank_one_updates":true,)"
      R"("init":"normal"},"activation":"modrelu","input_matrix":"free","learn_initial_state":false},)"
      R"({"kind":"orthogonal","hidden_size":4,"transition":{"kind":"cayley","negative_signs":2,"init":"cayley"},)"
      R"("activation":"relu","input_matrix":"free","learn_initial_state":false},)"
      R"({"kind":"orthogonal","hidden_size":4,"transition":{"kind":"expm","init":"henaff"},)"
      R"("activation":"tanh","input_matrix":"free","learn_initial_state":false},)"
      R"({"kind":"orthogonal","hidden_size":3,"transition":{"kind":"free","init":"henaff"},)"
      R"("activation":"identity","input_matrix":"free","learn_initial_state":false},)"
      R"({"kind":"lstm","hidden_size":2},{"kind":"gru","hidden_size":3}],)"
      R"("readout":{"kind":"last_step","outputs":2},"loss":"mean_squared_error"})";
  const ModelOptions options = model_options_from_json(model);
  CHECK(to_json(options) == model);
  REQUIRE(options.cells.size() == 7);
  const auto cell = [&](std::size_t i) { return std::get<OrthogonalCell>(options.cells[i]); };
  CHECK(std::get<Cwy>(cell(0).transition).form == ReflectionForm::factored);
  CHECK(cell(0).learn_initial_state);
  CHECK(std::get<HouseholderProduct>(cell(1).transition).rank_one_updates);
  CHECK(std::get<ScaledCayley>(cell(2).transition).negative_signs == 2);
  CHECK(cell(4).activation == Activation::identity);
  CHECK(std::get<Lstm>(options.cells[5]).hidden_size == 2);
  CHECK(std::get<Gru>(options.cells[6]).hidden_size == 3);

  const auto trainer = [](const std::string& optimizer) {
    return R"({"optimizer":)" + optimizer +
           R"(,"schedule":{"kind":"step","warmup_steps":2,"total_steps":6,"step_every":3,"step_factor":0.5,)"
           R"("final_factor":0.1},"clip":0.75,"accumulate":4})";
  };
  for (const char* optimizer :
       {R"({"kind":"sgd","momentum":0.5,"weight_decay":0.25,"lr":0.001})",
        R"({"kind":"rmsprop","decay":0.9,"epsilon":1e-08,"weight_decay":0.0,"lr":0.001,"lr_orthogonal":0.0})",
        R"({"kind":"adam","beta1":0.5,"beta2":0.75,"epsilon":1e-08,"weight_decay":0.0,"lr":0.001})",
        R"({"kind":"adamw","beta1":0.5,"beta2":0.75,"epsilon":1e-08,"weight_decay":0.01,"lr":0.001})",
        R"({"kind":"rgd","metric":"euclidean","retraction":"qr","momentum":0.5,)"
        R"("weight_decay":0.0,"lr":0.001})",
        R"({"kind":"rgd-adam","metric":"canonical","retraction":"cayley","beta1":0.5,"beta2":0.75,)"
        R"("epsilon":1e-08,"weight_decay":0.0,"lr":0.001})"}) {
    CHECK(to_json(trainer_options_from_json(trainer(optimizer))) == trainer(optimizer));
  }
}

TEST_CASE("what a file may leave out has its default, and nothing else may", "[fields]") {
  Json cell = json_object(OrthogonalCell{.learn_initial_state = true});
  OrthogonalCell found;
  cell.erase("learn_initial_state");
  read_fields(cell, found);
  CHECK_FALSE(found.learn_initial_state);
  for (const char* key : {"hidden_size", "transition", "activation", "input_matrix"}) {
    Json without = cell;
    without.erase(key);
    CHECK_THAT(error_message<ValueError>([&] { read_fields(without, found); }),
               contains(fmt::format("the key '{}' is missing", key)));
  }
  Json training = json_object(TrainerOptions{.accumulate = 3});
  TrainerOptions trainer;
  training.erase("accumulate");  // as in files of earlier versions
  read_fields(training, trainer);
  CHECK(trainer.accumulate == 1);
  // A model's unknown keys are passed over, as before.
  cell["colour"] = "red";
  CHECK_NOTHROW(read_fields(cell, found));
}

TEST_CASE("an optional that is unset stays unset, whatever its default", "[fields]") {
  WithLimit read;
  read_fields(json_object(WithLimit{.limit = {}}), read);
  CHECK_FALSE(read.limit);
  read_fields(json_object(WithLimit{.limit = 2.0}), read);
  CHECK(read.limit == 2.0);
  WithLimit defaulted;
  read_fields(Json::object(), defaulted, MissingField::has_its_default);
  CHECK(defaulted.limit == 1.0);
}

TEST_CASE("a value that a field cannot have is refused by key, expectation and finding", "[fields]") {
  CHECK(refusal<OrthogonalCell>("hidden_size", 0) ==
        "'hidden_size' is 0; expected a whole number, at least 1");
  CHECK(refusal<Cwy>("reflections", -1) == "'reflections' is -1; expected a whole number, at least 0");
  CHECK(refusal<Adam>("lr", 0.0) == "'lr' is 0; expected a number above 0");
  CHECK(refusal<Adam>("lr", std::numeric_limits<double>::infinity()) ==
        "'lr' is inf; expected a finite number");
  CHECK(domain::positive.text(std::numeric_limits<double>::infinity(), /*whole=*/false) ==
        "a finite number above 0");
  CHECK(refusal<Adam>("beta1", 1.0) == "'beta1' is 1; expected a number in [0, 1)");
  CHECK(refusal<Adam>("lr_orthogonal", -0.5) == "'lr_orthogonal' is -0.5; expected a number, at least 0");
  CHECK(refusal<Schedule>("final_factor", 1.5) == "'final_factor' is 1.5; expected a number from 0 to 1");
  CHECK(refusal<DeltaProductCell>("beta_limit", 0) ==
        "'beta_limit' is 0; expected a number above 0 and up to 2");
  CHECK(refusal<MnistOptions>("validation_share", 6) == "'validation_share' is 6; expected 12");
  CHECK(refusal<Cwy>("init", "xavier") == R"('init' is "xavier"; expected henaff, cayley, haar or normal)");
  CHECK(refusal<OrthogonalCell>("transition", {{"kind", "lstm"}}) ==
        R"('kind' is "lstm"; expected )" + one_of(names_of<TransitionOptions>()));
  // Of another kind.
  CHECK_THAT(refusal<Cwy>("reflections", 1.5), contains("'reflections' is 1.5; expected a whole number"));
  CHECK_THAT(refusal<Cwy>("form", 3), contains("'form' is 3; expected text"));
  CHECK_THAT(refusal<OrthogonalCell>("transition", "cwy"), contains("expected an object"));
  CHECK_THAT(refusal<OrthogonalCell>("learn_initial_state", 1), contains("expected true or false"));
  CHECK_THAT(refusal<ModelOptions>("cells", 3), contains("expected an array"));
  CHECK_THAT(refusal<ModelOptions>("cells", Json::array({3})), contains("expected an object"));
  CHECK_THAT(refusal<Adam>("lr_orthogonal", Json()), contains("'lr_orthogonal' is null; expected a number"));
}

TEST_CASE("a domain knows which numbers it has, also when they are rounded", "[fields]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Domain& domain : {domain::any, domain::positive, domain::not_negative, domain::share}) {
    CHECK_FALSE(domain.contains(nan));
    CHECK_FALSE(domain.contains(infinity));
    CHECK_FALSE(domain.contains(-infinity));
    CHECK(domain.contains(0.5));
  }
  CHECK_FALSE(domain::positive.contains(0));
  CHECK(domain::positive.contains(1e-50));
  CHECK_FALSE(domain::positive.contains<float>(1e-50));
  CHECK(domain::not_negative.contains<float>(1e-50));
  CHECK(domain::below_one.contains(0.999999999));
  CHECK_FALSE(domain::below_one.contains<float>(0.999999999));
  CHECK_FALSE(domain::below_one.contains(1));
  CHECK(domain::share.contains(1));
  CHECK_FALSE(domain::share.contains(1.5));
  CHECK(domain::positive.contains<float>(1e300));
  CHECK(domain::count.text(0, true) == "a whole number, at least 1");
  CHECK(domain::any.text(nan, false) == "a number");
  CHECK(domain::positive.text(0, false) == "a number above 0");
  CHECK(domain::positive.text(1e-50, false) == "a number that rounded to 32 bits is still above 0");
  CHECK(domain::below_one.text(0.999999999, false) == "a number that rounded to 32 bits is still in [0, 1)");
}

}  // namespace orthornn::testing
