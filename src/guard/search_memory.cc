#include "guard/search_memory.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tenon::guard {
namespace {

using Json = nlohmann::json;

// JSON has no infinity.
Json Number(double v) {
  return std::isfinite(v) ? Json(v) : Json(v > 0 ? "inf" : v < 0 ? "-inf" : "nan");
}

std::optional<double> Number(const Json& v) {
  if (v.is_number()) return v.get<double>();
  if (v == "inf") return std::numeric_limits<double>::infinity();
  if (v == "-inf") return -std::numeric_limits<double>::infinity();
  if (v == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// Names of models may be anything; what is kept is ASCII.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Numbers of an object by name; false when one is missing.
bool Read(const std::string& text, std::initializer_list<std::pair<const char*, double*>> numbers, Json* object) {
  *object = Json::parse(text, nullptr, false);
  if (!object->is_object()) return false;
  for (const auto& [name, value] : numbers) {
    const auto it = object->find(name);
    const auto number = it == object->end() ? std::nullopt : Number(*it);
    if (!number) return false;
    *value = *number;
  }
  return true;
}

}  // namespace

std::string ToText(const Times& times) {
  Json nodes = Json::array();
  for (const auto& [name, us] : times.nodes_us) nodes.push_back({name, us});
  return Dump({{"run_us", times.run_us}, {"nodes_us", nodes}});
}

std::optional<Times> TimesFromText(const std::string& text) {
  Times times;
  Json object;
  if (!Read(text, {{"run_us", &times.run_us}}, &object) || !object["nodes_us"].is_array()) return std::nullopt;
  for (const Json& node : object["nodes_us"]) {
    if (!node.is_array() || node.size() != 2 || !node[0].is_string() || !node[1].is_number()) return std::nullopt;
    times.nodes_us[node[0].get<std::string>()] = node[1].get<double>();
  }
  return times;
}

std::string ToText(const Drop& drop) {
  return Dump({{"metric", drop.metric},
               {"reference", Number(drop.reference)},
               {"value", Number(drop.value)},
               {"relative", Number(drop.relative)},
               {"expected", Number(drop.expected)},
               {"low", Number(drop.low)},
               {"high", Number(drop.high)},
               {"rows", drop.rows}});
}

std::optional<Drop> DropFromText(const std::string& text) {
  Drop drop;
  Json object;
  double rows = 0;
  if (!Read(text,
            {{"reference", &drop.reference},
             {"value", &drop.value},
             {"relative", &drop.relative},
             {"expected", &drop.expected},
             {"low", &drop.low},
             {"high", &drop.high},
             {"rows", &rows}},
            &object) ||
      !object["metric"].is_string() || !(rows >= 0 && rows < 1e15)) {
    return std::nullopt;
  }
  drop.metric = object["metric"].get<std::string>();
  drop.rows = static_cast<size_t>(rows);
  return drop;
}

std::string ToText(const Duel& duel) {
  return Dump({{"first_us", duel.first_us}, {"second_us", duel.second_us}, {"ratio", duel.ratio}, {"noise", duel.noise}});
}

std::optional<Duel> DuelFromText(const std::string& text) {
  Duel duel;
  Json object;
  const bool read =
      Read(text, {{"first_us", &duel.first_us}, {"second_us", &duel.second_us}, {"ratio", &duel.ratio}, {"noise", &duel.noise}},
           &object);
  if (!read) return std::nullopt;
  return duel;
}

std::string ToText(const Alone& alone) {
  return Dump({{"error", Number(alone.error)}, {"drop", Number(alone.drop)}});
}

std::optional<Alone> AloneFromText(const std::string& text) {
  Alone alone;
  Json object;
  if (!Read(text, {{"error", &alone.error}, {"drop", &alone.drop}}, &object)) return std::nullopt;
  return alone;
}

std::string ToText(double value) {
  return Dump(Number(value));
}

std::optional<double> NumberFromText(const std::string& text) {
  return Number(Json::parse(text, nullptr, false));
}

}  // namespace tenon::guard
