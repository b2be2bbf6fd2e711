#include "tessera/cli/tuner_texts.h"

#include <fmt/format.h>

namespace tessera::cli {

std::string prose_text() {
  return "The ferry left before sunrise, while fog still covered most of the harbour. Two fishermen stood at the rail "
         "and argued about the price of diesel. Below deck, a woman in a green coat sorted letters into wooden boxes, "
         "one for every village along the coast. She had carried mail for nineteen years, and she knew which houses "
         "kept dogs. A boy asked her whether any parcel came from overseas. She smiled, shook her head, and gave him "
         "an apple instead.\n\n"
         "Around eight the wind turned north. Waves began to slap against the hull, cups slid across tables, and "
         "somebody closed the kitchen. The captain slowed down near a lighthouse whose lamp had failed last winter. "
         "Engineers were expected there in spring, yet nobody believed that they would arrive before the herring. "
         "On shore, farmers were already cutting hay. Swallows dived between barns, and children chased each other "
         "over dry stone walls.\n\n"
         "When the boat reached its final stop, only seven passengers remained. They walked up a steep path toward "
         "the church, past gardens full of beans, rusty bicycles and painted stones. From the hill one could see "
         "both islands, the narrow strait between them, and a line of white sails that moved slowly east. An old "
         "teacher unfolded his map, although he had drawn it himself. He wanted to show the visitors where a bridge "
         "might stand one day, if money, patience and weather ever agreed.\n";
}

std::string repeated_text() {
  constexpr int kRecords = 14;
  std::string text;
  for (const int pass : {0, 1}) {
    text += pass == 0 ? "Records:\n" : "Corrected records:\n";
    for (int i = 0; i < kRecords; ++i) {
      const int weight = 40 + i * 37 % 61 + (pass == 1 && i % 5 == 2 ? 9 : 0);
      text += fmt::format("{{\"id\": {}, \"name\": \"part {}\", \"weight\": {}, \"in_stock\": {}}}\n", 1000 + i * 13, i,
                          weight, i % 3 != 0);
    }
  }
  return text;
}

}  // namespace tessera::cli
