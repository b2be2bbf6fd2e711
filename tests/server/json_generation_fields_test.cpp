// Generation fields: every row of the table, every refusal, aliases, limits of the server, and unknown names.
#include "tessera/server/json/generation_fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/server/json/generation_settings.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {
namespace {

using ReadFields = FieldResult<ReadGenerationFields>;

ReadFields read_fields(std::string_view text, const GenerationLimits& limits = {},
                       const GenerationFields& defaults = {}, std::span<const std::string_view> dialect_names = {}) {
  const auto json = read_json_field(text);
  EXPECT_TRUE(json) << text;
  return json ? read_generation_fields(*json, defaults, limits, dialect_names) : std::unexpected(json.error());
}

GenerationFields fields_of(std::string_view text, const GenerationFields& defaults = {}) {
  auto read = read_fields(text, {.n_slots = 4}, defaults);
  EXPECT_TRUE(read) << text << ": " << read.error().message;
  return read ? read->fields : GenerationFields();
}

std::string refusal_of_fields(std::string_view text, const GenerationLimits& limits = {}) {
  const auto read = read_fields(text, limits);
  EXPECT_FALSE(read) << text;
  if (read) return "read";
  EXPECT_EQ(read.error().status, 400) << text;
  return read.error().message;
}

TEST(GenerationFields, AbsentAndNullOnesTakeTheDefaults) {
  GenerationFields defaults;
  defaults.sampling.temp = 0.25f;
  defaults.stop = {"END"};
  defaults.cache_prompt = false;
  for (const char* text : {"{}", R"({"temperature":null,"stop":null,"cache_prompt":null,"unknown":null})"}) {
    const auto read = read_fields(text, {}, defaults);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->fields.sampling.temp, 0.25f);
    EXPECT_EQ(read->fields.stop, std::vector<std::string>{"END"});
    EXPECT_FALSE(read->fields.cache_prompt);
    EXPECT_EQ(read->ignored, "");
  }
}

TEST(GenerationFields, DefaultsAreThoseOfLlamaServer) {
  const GenerationFields fields = fields_of("{}");
  EXPECT_EQ(fields.n_predict, -1);
  EXPECT_TRUE(fields.cache_prompt);
  EXPECT_EQ(fields.id_slot, -1);
  EXPECT_EQ(fields.n_choices, 1);
  EXPECT_EQ(fields.sampling.seed, -1);
  EXPECT_EQ(fields.sampling.temp, 0.8f);
  EXPECT_EQ(fields.sampling.top_k, 40);
  EXPECT_EQ(fields.sse_ping_interval_s, 30);
  EXPECT_EQ(fields.adaptive_target, -1.0f);
  EXPECT_EQ(fields.adaptive_decay, 0.9f);
  EXPECT_FALSE(fields.stream);
}

TEST(GenerationFields, NumbersOfTheChainAreRead) {
  const sample::SamplerParams p = fields_of(R"({"seed":42,"temperature":0.5,"dynatemp_range":1.5,"dynatemp_exponent":2,
    "top_k":7,"top_p":0.25,"min_p":0.125,"typical_p":0.75,"top_n_sigma":3,"xtc_probability":0.5,"xtc_threshold":0.25,
    "repeat_last_n":-1,"repeat_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,"dry_multiplier":0.5,
    "dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":9,"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.5,
    "min_keep":5})")
                                      .sampling;
  EXPECT_EQ(p.seed, 42);
  EXPECT_EQ(p.temp, 0.5f);
  EXPECT_EQ(p.dynatemp_range, 1.5f);
  EXPECT_EQ(p.dynatemp_exponent, 2.0f);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.top_p, 0.25f);
  EXPECT_EQ(p.min_p, 0.125f);
  EXPECT_EQ(p.typ_p, 0.75f);
  EXPECT_EQ(p.top_n_sigma, 3.0f);
  EXPECT_EQ(p.xtc_probability, 0.5f);
  EXPECT_EQ(p.xtc_threshold, 0.25f);
  EXPECT_EQ(p.repeat_last_n, -1);
  EXPECT_EQ(p.repeat_penalty, 1.5f);
  EXPECT_EQ(p.presence_penalty, -2.0f);
  EXPECT_EQ(p.frequency_penalty, 2.0f);
  EXPECT_EQ(p.dry_multiplier, 0.5f);
  EXPECT_EQ(p.dry_base, 2.0f);
  EXPECT_EQ(p.dry_allowed_length, 3);
  EXPECT_EQ(p.dry_penalty_last_n, 9);
  EXPECT_EQ(p.mirostat, 2);
  EXPECT_EQ(p.mirostat_tau, 4.0f);
  EXPECT_EQ(p.mirostat_eta, 0.5f);
  EXPECT_EQ(p.min_keep, 5);
}

TEST(GenerationFields, OtherNumbersAndFlagsAreRead) {
  const GenerationFields f = fields_of(R"({"n_predict":9,"n_keep":2,"n_discard":3,"ignore_eos":true,"stream":true,
    "n_probs":4,"grammar":"root ::= \"a\"","timings_per_token":true,"post_sampling_probs":true,"n_cmpl":2,
    "cache_prompt":false,"id_slot":3,"n_cache_reuse":16,"n_indent":4,"t_max_predict_ms":100,"return_tokens":true,
    "return_progress":true,"verbose":true,"sse_ping_interval":-1,"priority":-10,"timeout_ms":5000,"cache_salt":"s",
    "trace":true,"adaptive_target":0.5,"adaptive_decay":0.25,"stream_options":{"include_usage":true,"x":1}})");
  EXPECT_EQ(f.n_predict, 9);
  EXPECT_EQ(f.n_keep, 2);
  EXPECT_EQ(f.n_discard, 3);
  EXPECT_TRUE(f.ignore_eos && f.stream && f.timings_per_token && f.post_sampling_probs && f.return_tokens);
  EXPECT_TRUE(f.return_progress && f.verbose && f.trace && f.include_usage);
  EXPECT_FALSE(f.cache_prompt);
  EXPECT_EQ(f.n_probs, 4);
  EXPECT_EQ(f.grammar, "root ::= \"a\"");
  EXPECT_EQ(f.n_choices, 2);
  EXPECT_EQ(f.id_slot, 3);
  EXPECT_EQ(f.n_cache_reuse, 16);
  EXPECT_EQ(f.n_indent, 4);
  EXPECT_EQ(f.t_max_predict_ms, 100);
  EXPECT_EQ(f.sse_ping_interval_s, -1);
  EXPECT_EQ(f.priority, -10);
  EXPECT_EQ(f.timeout_ms, 5000);
  EXPECT_EQ(f.cache_salt, "s");
  EXPECT_EQ(f.adaptive_target, 0.5f);
  EXPECT_EQ(f.adaptive_decay, 0.25f);
}

TEST(GenerationFields, AliasesGiveWayToTheNameAndInTheirOrder) {
  EXPECT_EQ(fields_of(R"({"max_tokens":5})").n_predict, 5);
  EXPECT_EQ(fields_of(R"({"max_tokens":5,"max_completion_tokens":6})").n_predict, 6);
  EXPECT_EQ(fields_of(R"({"max_tokens":5,"n_predict":7,"max_completion_tokens":6})").n_predict, 7);
  EXPECT_EQ(fields_of(R"({"n":3})").n_choices, 3);
  EXPECT_EQ(fields_of(R"({"logprobs":3})").n_probs, 3);
  EXPECT_EQ(refusal_of_fields(R"({"max_tokens":-2})"), "Field 'max_tokens': value -2, want -1 to 2147483647");
}

TEST(GenerationFields, ADialectsOwnNamesAreLeftToIt) {
  const std::string_view names[] = {"logprobs", "messages"};
  const auto read = read_fields(R"({"logprobs":true,"messages":[],"foo":1})", {}, {}, names);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fields.n_probs, 0);
  EXPECT_EQ(read->ignored, "foo");
  EXPECT_EQ(refusal_of_fields(R"({"logprobs":true})"), "Field 'logprobs': value true, want an integer, 0 to 100");
}

TEST(GenerationFields, RefusalsNameFieldValueAndRange) {
  const auto read = read_fields(R"({"top_p":1.5})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "Field 'top_p': value 1.5, want 0 to 1");
  EXPECT_EQ(read.error().param, "top_p");
  EXPECT_EQ(refusal_of_fields(R"({"temperature":101})"), "Field 'temperature': value 101, want at most 100");
  EXPECT_EQ(refusal_of_fields(R"({"top_k":"many"})"),
            "Field 'top_k': value \"many\", want an integer, -1 to 2147483647");
  EXPECT_EQ(refusal_of_fields(R"({"top_k":1.5})"), "Field 'top_k': value 1.5, want an integer, -1 to 2147483647");
  EXPECT_EQ(refusal_of_fields(R"({"stream":1})"), "Field 'stream': value 1, want true or false");
  EXPECT_EQ(refusal_of_fields(R"({"grammar":[1]})"), "Field 'grammar': value a list of 1, want a text");
  EXPECT_EQ(refusal_of_fields("[]"), "The body: value a list of 0, want an object");
}

TEST(GenerationFields, NumbersOutOfTheirRangeAreRefused) {
  for (const char* text : {R"({"seed":-2})",
                           R"({"seed":4294967296})",
                           R"({"seed":9223372036854775808})",
                           R"({"seed":1e300})",
                           R"({"top_k":-2})",
                           R"({"top_k":2147483648})",
                           R"({"top_p":-0.1})",
                           R"({"min_p":1.1})",
                           R"({"typical_p":2})",
                           R"({"top_n_sigma":-1.5})",
                           R"({"top_n_sigma":101})",
                           R"({"xtc_probability":2})",
                           R"({"xtc_threshold":-1})",
                           R"({"dynatemp_range":-1})",
                           R"({"dynatemp_exponent":101})",
                           R"({"repeat_last_n":-2})",
                           R"({"repeat_penalty":-0.1})",
                           R"({"presence_penalty":101})",
                           R"({"frequency_penalty":-101})",
                           R"({"dry_multiplier":-1})",
                           R"({"dry_base":101})",
                           R"({"dry_allowed_length":-2147483648})",
                           R"({"dry_penalty_last_n":-2})",
                           R"({"mirostat":99})",
                           R"({"mirostat":-1})",
                           R"({"mirostat_tau":-1})",
                           R"({"mirostat_eta":1.1})",
                           R"({"adaptive_target":1.1})",
                           R"({"adaptive_decay":1})",
                           R"({"min_keep":-1})",
                           R"({"n_predict":-2})",
                           R"({"n_predict":9223372036854775807})",
                           R"({"n_keep":-2})",
                           R"({"n_discard":-1})",
                           R"({"n_probs":2147483647})",
                           R"({"n_probs":-5})",
                           R"({"n":0})",
                           R"({"n":1e9})",
                           R"({"n":129})",
                           R"({"id_slot":999})",
                           R"({"id_slot":-7})",
                           R"({"n_cache_reuse":-1})",
                           R"({"n_indent":-1})",
                           R"({"t_max_predict_ms":-2})",
                           R"({"sse_ping_interval":3601})",
                           R"({"sse_ping_interval":-2})",
                           R"({"priority":11})",
                           R"({"priority":-11})",
                           R"({"timeout_ms":-1})"})
    EXPECT_NE(refusal_of_fields(text).find(", want "), std::string::npos) << text;
}

TEST(GenerationFields, EveryFieldRefusesAWrongType) {
  for (const FieldDoc& doc : generation_field_docs()) {
    if (doc.wants == "ignored") continue;
    // An object is no value of a field, unless it is one of an object: for these a number.
    const bool takes_object = doc.wants.find("object") != std::string::npos;
    const std::string text = "{\"" + std::string(doc.name) + "\":" + (takes_object ? "5" : "{}") + "}";
    EXPECT_TRUE(refusal_of_fields(text).starts_with("Field '" + std::string(doc.name) + "'")) << text;
  }
}

TEST(GenerationFields, WholeFractionsAreIntegers) {
  EXPECT_EQ(fields_of(R"({"top_k":20.0})").sampling.top_k, 20);
  EXPECT_EQ(fields_of(R"({"seed":1e3})").sampling.seed, 1000);
}

TEST(GenerationFields, TheLimitsOfTheServerBoundTheRanges) {
  const GenerationLimits limits{.n_slots = 2, .max_choices = 3, .max_logprobs = 4, .best_priority = 0};
  EXPECT_TRUE(read_fields(R"({"id_slot":1,"n":3,"n_probs":4,"priority":0})", limits));
  EXPECT_EQ(refusal_of_fields(R"({"id_slot":2})", limits), "Field 'id_slot': value 2, want -1 to 1");
  EXPECT_EQ(refusal_of_fields(R"({"n":4})", limits), "Field 'n': value 4, want 1 to 3");
  EXPECT_EQ(refusal_of_fields(R"({"n_probs":5})", limits), "Field 'n_probs': value 5, want 0 to 4");
  EXPECT_EQ(refusal_of_fields(R"({"priority":-1})", limits), "Field 'priority': value -1, want 0 to 10");
}

TEST(GenerationFields, TheServersNumberOfTokensIsABound) {
  GenerationFields defaults;
  defaults.n_predict = 10;
  EXPECT_EQ(fields_of("{}", defaults).n_predict, 10);
  EXPECT_EQ(fields_of(R"({"n_predict":-1})", defaults).n_predict, 10);
  EXPECT_EQ(fields_of(R"({"n_predict":50})", defaults).n_predict, 10);
  EXPECT_EQ(fields_of(R"({"n_predict":3})", defaults).n_predict, 3);
  EXPECT_EQ(fields_of(R"({"n_predict":0})", defaults).n_predict, 0);
}

TEST(GenerationFields, ValuesThatAChainCannotHaveAreAdjusted) {
  EXPECT_EQ(fields_of(R"({"seed":4294967295})").sampling.seed, -1);
  EXPECT_EQ(fields_of(R"({"temperature":-1e300})").sampling.temp, 0.0f);
  EXPECT_EQ(fields_of(R"({"repeat_penalty":0})").sampling.repeat_penalty, 0.001f);
  EXPECT_EQ(fields_of(R"({"dry_base":0.5})").sampling.dry_base, 1.75f);
  EXPECT_EQ(fields_of(R"({"dry_allowed_length":0})").sampling.dry_allowed_length, 1);
  EXPECT_EQ(fields_of(R"({"adaptive_target":-1e300})").adaptive_target, -1.0f);
}

TEST(GenerationFields, StopIsATextOrAList) {
  EXPECT_EQ(fields_of(R"({"stop":"a"})").stop, std::vector<std::string>{"a"});
  EXPECT_EQ(fields_of(R"({"stop":["a","","b"]})").stop, (std::vector<std::string>{"a", "b"}));
  GenerationFields defaults;
  defaults.stop = {"END"};
  for (const char* text : {R"({"stop":[]})", R"({"stop":""})"})
    EXPECT_EQ(fields_of(text, defaults).stop, std::vector<std::string>{"END"}) << text;
  EXPECT_EQ(refusal_of_fields(R"({"stop":[1,null]})"), "Field 'stop[0]': value 1, want a text");
  EXPECT_EQ(refusal_of_fields(R"({"stop":["a",null]})"), "Field 'stop[1]': value null, want a text");
  EXPECT_EQ(refusal_of_fields(R"({"stop":5})"), "Field 'stop': value 5, want a text, or a list of texts");
  Json many = {{"stop", std::vector<std::string>(65, "x")}};
  EXPECT_EQ(refusal_of_fields(many.dump()), "Field 'stop': a list of 65, want at most 64");
  Json large = {{"stop", {std::string(1025, 'x')}}};
  EXPECT_EQ(refusal_of_fields(large.dump()), "Field 'stop[0]': a text of 1025 bytes, want at most 1024");
}

TEST(GenerationFields, BiasesAreReadInBothForms) {
  const auto list = fields_of(R"({"logit_bias":[[5,1.5],["hi",-2],[7,false]]})").logit_bias;
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(std::get<int32_t>(list[0].token), 5);
  EXPECT_EQ(list[0].bias, 1.5f);
  EXPECT_EQ(std::get<std::string>(list[1].token), "hi");
  EXPECT_EQ(list[2].bias, -INFINITY);
  const auto object = fields_of(R"({"logit_bias":{"15":-100,"hi":false}})").logit_bias;
  ASSERT_EQ(object.size(), 2u);
  EXPECT_EQ(std::get<int32_t>(object[0].token), 15);
  EXPECT_EQ(object[0].bias, -100.0f);
  EXPECT_EQ(std::get<std::string>(object[1].token), "hi");
}

TEST(GenerationFields, BadBiasesAreRefused) {
  const GenerationLimits limits{.n_vocab = 100};
  const std::pair<const char*, const char*> cases[] = {
      {R"({"logit_bias":5})", "Field 'logit_bias': value 5, want a list of [id or text"},
      {R"({"logit_bias":[[1,2],[100,1]]})", "Field 'logit_bias[1]': value 100, want 0 to 99"},
      {R"({"logit_bias":[[-1,1]]})", "Field 'logit_bias[0]': value -1, want 0 to 99"},
      {R"({"logit_bias":[[1.5,1]]})", "Field 'logit_bias[0]': value 1.5, want an integer, 0 to 99"},
      {R"({"logit_bias":[[9223372036854775808,1]]})", "Field 'logit_bias[0]': value 9223372036854775808, want"},
      {R"({"logit_bias":[[1,true]]})", "Field 'logit_bias[0]': value true, want a number or false"},
      {R"({"logit_bias":[[1,1e39]]})", "Field 'logit_bias[0]': value 1e+39, want"},
      {R"({"logit_bias":[[1]]})", "Field 'logit_bias[0]': value a list of 1, want a pair"},
      {R"({"logit_bias":[1]})", "Field 'logit_bias[0]': value 1, want a pair"},
      {R"({"logit_bias":{"100":1}})", "Field 'logit_bias': token 100, want 0 to 99"},
      {R"({"logit_bias":{"-1":1}})", "Field 'logit_bias': token -1, want 0 to 99"},
      {R"({"logit_bias":{"9223372036854775808":1}})", "Field 'logit_bias': token 9223372036854775807, want 0 to 99"},
      {R"({"logit_bias":{"5":"x"}})", "Field 'logit_bias': value \"x\", want a number or false"}};
  for (const auto& [text, message] : cases)
    EXPECT_TRUE(refusal_of_fields(text, limits).starts_with(message)) << refusal_of_fields(text, limits);
  Json many = {{"logit_bias", Json::array()}};
  for (int i = 0; i < 4097; ++i) many["logit_bias"].push_back({1, 1});
  EXPECT_EQ(refusal_of_fields(many.dump(), limits), "Field 'logit_bias': a list of 4097, want at most 4096");
}

TEST(GenerationFields, SamplersAreNamesOrLetters) {
  using sample::SamplerKind;
  const std::vector<SamplerKind> order = {SamplerKind::top_k, SamplerKind::temperature};
  EXPECT_EQ(fields_of(R"({"samplers":["top_k","temperature"]})").sampling.order, order);
  EXPECT_EQ(fields_of(R"({"samplers":"kt"})").sampling.order, order);
  EXPECT_TRUE(fields_of(R"({"samplers":[]})").sampling.order.empty());
  for (const char* text :
       {R"({"samplers":["no_such"]})", R"({"samplers":["top_k","top_k"]})", R"({"samplers":[""]})",
        R"({"samplers":["top_k;top_p"]})", R"({"samplers":"?"})", R"({"samplers":[5]})", R"({"samplers":["infill"]})"})
    EXPECT_TRUE(refusal_of_fields(text).starts_with("Field 'samplers")) << text;
}

TEST(GenerationFields, LoraScalesAreChecked) {
  const GenerationLimits limits{.n_lora = 2};
  const auto read = read_fields(R"({"lora":[{"id":1,"scale":0.5}]})", limits);
  ASSERT_TRUE(read);
  ASSERT_TRUE(read->fields.lora && read->fields.lora->size() == 1);
  EXPECT_EQ(read->fields.lora->front().id, 1);
  EXPECT_EQ(read->fields.lora->front().scale, 0.5f);
  EXPECT_EQ(refusal_of_fields(R"({"lora":[{"id":99}]})", limits), "Field 'lora[0].id': value 99, want 0 to 1");
  EXPECT_EQ(refusal_of_fields(R"({"lora":[{"id":0},{"id":0}]})", limits),
            "Field 'lora[1].id': adapter 0 a second time");
  EXPECT_EQ(refusal_of_fields(R"({"lora":[{"scale":1}]})", limits),
            "Field 'lora[0].id': absent, want the id of an adapter");
  EXPECT_EQ(refusal_of_fields(R"({"lora":[5]})", limits), "Field 'lora[0]': value 5, want an object");
  EXPECT_EQ(refusal_of_fields(R"({"lora":[{"id":0,"scale":1e39}]})", limits).substr(0, 39),
            "Field 'lora[0].scale': value 1e+39, wan");
}

TEST(GenerationFields, SchemasKeepTheOrderOfTheirKeys) {
  EXPECT_EQ(fields_of(R"({"json_schema":{"type":"object","properties":{"z":{},"a":{}}}})").json_schema,
            R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_EQ(fields_of(R"({"json_schema":{}})").json_schema, "{}");
  EXPECT_EQ(refusal_of_fields(R"({"json_schema":{},"grammar":"x"})"),
            "Field 'grammar': beside json_schema, want only one of the two");
  EXPECT_EQ(fields_of(R"({"json_schema":{},"grammar":""})").json_schema, "{}");
  const std::string large = R"({"json_schema":{"a":")" + std::string(1 << 20, 'x') + "\"}}";
  EXPECT_NE(refusal_of_fields(large).find("want at most 1048576"), std::string::npos);
}

TEST(GenerationFields, TextsAndListsAreBounded) {
  EXPECT_NE(refusal_of_fields(R"({"grammar":")" + std::string((1 << 20) + 1, 'x') + "\"}").find("want at most 1048576"),
            std::string::npos);
  EXPECT_NE(refusal_of_fields(R"({"cache_salt":")" + std::string(65, 'x') + "\"}").find("want at most 64"),
            std::string::npos);
  EXPECT_EQ(fields_of(R"({"response_fields":["content","timings/prompt_n"]})").response_fields,
            (std::vector<std::string>{"content", "timings/prompt_n"}));
  EXPECT_EQ(fields_of(R"({"dry_sequence_breakers":["x","\n"]})").sampling.dry_sequence_breakers,
            (std::vector<std::string>{"x", "\n"}));
  EXPECT_NE(refusal_of_fields(R"({"dry_sequence_breakers":[""]})").find("'dry_sequence_breakers[0]'"),
            std::string::npos);
  EXPECT_EQ(refusal_of_fields(R"({"stream_options":{"include_usage":5}})"),
            "Field 'stream_options.include_usage': value 5, want true or false");
}

TEST(GenerationFields, SomeFieldsAreIgnoredAndSomeRefused) {
  const auto read = read_fields(R"({"model":"x","backend_sampling":true,"speculative.n_max":5,"speculative":{},
    "generation_prompt":"x","parse_tool_calls":true,"chat_format":3})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ignored, "");
  EXPECT_TRUE(refusal_of_fields(R"({"chat_parser":"x"})").starts_with("Field 'chat_parser': not accepted"));
  EXPECT_TRUE(refusal_of_fields(R"({"grammar_triggers":[]})").starts_with("Field 'grammar_triggers': not accepted"));
}

TEST(GenerationFields, UnknownNamesAreListedSafely) {
  EXPECT_EQ(read_fields(R"({"foo":1,"top_k":5,"a\r\nSet-Cookie: x":2,"é,\"":3})")->ignored,
            "foo, a??Set-Cookie:?x, ????");
  Json many = Json::object();
  for (int i = 0; i < 1000; ++i) many["unknown_" + std::to_string(i)] = 1;
  const std::string ignored = read_fields(many.dump())->ignored;
  EXPECT_LE(ignored.size(), 512u);
  EXPECT_GE(ignored.size(), 480u);
  EXPECT_TRUE(ignored.ends_with(", ..."));
  const Json large = {{std::string(5000, 'x'), 1}};
  EXPECT_EQ(read_fields(large.dump())->ignored, std::string(64, 'x') + "...");
}

TEST(GenerationFields, EveryRowIsDocumented) {
  std::map<std::string_view, std::string> wants;
  for (const FieldDoc& doc : generation_field_docs()) {
    EXPECT_TRUE(wants.emplace(doc.name, doc.wants).second) << doc.name;
    EXPECT_FALSE(doc.help.empty() || doc.wants.empty() || doc.dialects.empty()) << doc.name;
    EXPECT_EQ(doc.dialects.find_first_not_of("noal"), std::string_view::npos) << doc.name;
  }
  EXPECT_GT(wants.size(), 55u);
  EXPECT_EQ(wants["top_p"], "a number, 0 to 1");
  EXPECT_EQ(wants["top_k"], "an integer, at least -1");
}

std::string settings_of(const GenerationFields& fields, const SettingsContext& context, SettingsPlace place) {
  std::string out;
  JsonWriter writer(out);
  write_generation_settings(writer, fields, context, place);
  return out;
}

std::vector<std::string> keys_of(const std::string& text) {
  std::vector<std::string> keys;
  const Json json = Json::parse(text);
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(GenerationSettings, AnswersHaveTheKeysOfLlamaServerInTheirOrder) {
  const std::vector<std::string> keys = {"seed",
                                         "temperature",
                                         "dynatemp_range",
                                         "dynatemp_exponent",
                                         "top_k",
                                         "top_p",
                                         "min_p",
                                         "top_n_sigma",
                                         "xtc_probability",
                                         "xtc_threshold",
                                         "typical_p",
                                         "repeat_last_n",
                                         "repeat_penalty",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "dry_multiplier",
                                         "dry_base",
                                         "dry_allowed_length",
                                         "dry_penalty_last_n",
                                         "dry_sequence_breakers",
                                         "mirostat",
                                         "mirostat_tau",
                                         "mirostat_eta",
                                         "adaptive_target",
                                         "adaptive_decay",
                                         "stop",
                                         "max_tokens",
                                         "n_predict",
                                         "n_keep",
                                         "n_discard",
                                         "ignore_eos",
                                         "stream",
                                         "logit_bias",
                                         "n_probs",
                                         "min_keep",
                                         "grammar",
                                         "grammar_lazy",
                                         "grammar_triggers",
                                         "preserved_tokens",
                                         "chat_format",
                                         "reasoning_format",
                                         "reasoning_in_content",
                                         "generation_prompt",
                                         "samplers",
                                         "speculative.types",
                                         "timings_per_token",
                                         "post_sampling_probs",
                                         "backend_sampling",
                                         "lora"};
  EXPECT_EQ(keys_of(settings_of({}, {}, SettingsPlace::answer)), keys);
  std::vector<std::string> slot_keys = keys;
  std::erase_if(slot_keys, [](const std::string& key) {
    return key == "dry_sequence_breakers" || key == "stop" || key == "logit_bias" || key == "preserved_tokens" ||
           key.starts_with("grammar");
  });
  EXPECT_EQ(keys_of(settings_of({}, {}, SettingsPlace::slot)), slot_keys);
}

TEST(GenerationSettings, ShowsTheValuesOfTheRequest) {
  const GenerationFields fields = fields_of(R"({"temperature":0.1,"top_p":0.95,"n_predict":8,"stop":["\n"],
    "samplers":["top_k","typ_p"],"lora":[{"id":1,"scale":0.5}],"seed":-1,"stream":true})");
  const sample::LogitBias biases[] = {{2, -INFINITY}, {7, 1.5f}};
  const SettingsContext context{.seed = 77, .logit_bias = biases, .grammar = "root ::= \"x\"", .chat_format = "F"};
  const std::string text = settings_of(fields, context, SettingsPlace::answer);
  for (const char* part :
       {R"("seed":77,"temperature":0.1,)", R"("top_p":0.95,)", R"("stop":["\n"],"max_tokens":8,"n_predict":8,)",
        R"("stream":true,"logit_bias":[{"bias":null,"token":2},{"bias":1.5,"token":7}],)",
        R"("grammar":"root ::= \"x\"",)", R"("chat_format":"F",)", R"("samplers":["top_k","typ_p"],)",
        R"("lora":[{"id":1,"scale":0.5}]})"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(GenerationFields, BoundsBelongToWhatIsAllowed) {
  EXPECT_EQ(fields_of(R"({"dry_base":1})").sampling.dry_base, 1);
  EXPECT_NE(fields_of(R"({"dry_base":0.5})").sampling.dry_base, 0.5f);
  GenerationFields defaults;
  for (const auto& [server, client, expected] :
       {std::tuple(0, -1, 0), {0, 5, 0}, {5, 7, 5}, {5, 5, 5}, {5, 3, 3}, {5, -1, 5}, {-1, 7, 7}, {5, 0, 0}}) {
    defaults.n_predict = server;
    EXPECT_EQ(fields_of("{\"n_predict\":" + std::to_string(client) + "}", defaults).n_predict, expected)
        << server << " " << client;
  }
  const auto ignored = [](const std::string& name) { return read_fields(Json{{name, 1}}.dump())->ignored; };
  EXPECT_EQ(ignored("!~"), "!~");
  EXPECT_EQ(ignored("a b\x7f,\""), "a?b???");
}

TEST(GenerationFields, KeysOfBiasesAreIdsOrTexts) {
  const GenerationLimits limits{.n_vocab = 100};
  const auto token_of = [&](const std::string& key) {
    const auto read = read_fields(Json{{"logit_bias", {{key, 1}}}}.dump(), limits);
    EXPECT_TRUE(read) << key;
    return read->fields.logit_bias.at(0).token;
  };
  EXPECT_EQ(std::get<int32_t>(token_of("0")), 0);
  EXPECT_EQ(std::get<int32_t>(token_of("99")), 99);
  EXPECT_EQ(std::get<std::string>(token_of("5x")), "5x");
  EXPECT_EQ(std::get<std::string>(token_of("x")), "x");
  EXPECT_EQ(std::get<std::string>(token_of(std::string(1024, 'x'))).size(), 1024u);
  EXPECT_EQ(refusal_of_fields(Json{{"logit_bias", {{std::string(1025, 'x'), 1}}}}.dump(), limits),
            "Field 'logit_bias': a text of 1025 bytes, want at most 1024");
}

TEST(GenerationFields, ListsMayBeAsLongAsTheirLimits) {
  Json body = {{"logit_bias", Json::array()}, {"lora", Json::array()}};
  for (int i = 0; i < 4096; ++i) body["logit_bias"].push_back({1, 1});
  for (int i = 0; i < 1024; ++i) body["lora"].push_back({{"id", i}});
  const GenerationLimits limits{.n_vocab = 100, .n_lora = 2000};
  EXPECT_TRUE(read_fields(body.dump(), limits));
  body["lora"].push_back({{"id", 1024}});
  EXPECT_EQ(refusal_of_fields(body.dump(), limits), "Field 'lora': a list of 1025, want at most 1024");
  const auto schema_of = [](size_t n_bytes) {
    return Json{{"json_schema", {{"a", std::string(n_bytes - std::string_view(R"({"a":""})").size(), 'x')}}}}.dump();
  };
  EXPECT_TRUE(read_fields(schema_of(size_t{1} << 20)));
  EXPECT_EQ(refusal_of_fields(schema_of((size_t{1} << 20) + 1)),
            "Field 'json_schema': a schema of 1048577 bytes, want at most 1048576");
}

}  // namespace
}  // namespace tessera::server
