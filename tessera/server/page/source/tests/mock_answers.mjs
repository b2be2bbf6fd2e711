// The answers of the mock server: a word in the last message chooses one. Tests name the same words.

export const kHostile = [
  '<script>window.hacked = 1</script>',
  '<img src=x onerror="window.hacked = 1">',
  '[a link](javascript:window.hacked=1) and [data](data:text/html,<script>window.hacked=1</script>)',
  '<style>body { display: none }</style>',
  '<a href="javascript:window.hacked=1" onclick="window.hacked=1">click</a>',
  '<svg onload="window.hacked=1"><math><mi xlink:href="javascript:window.hacked=1"></mi></math></svg>',
  '<iframe srcdoc="<script>parent.hacked=1</script>"></iframe> <form action="/x"><button>send</button></form>',
  'Inline <b onmouseover="window.hacked=1">bold</b> and <b>harmless bold</b>, a<br>break.',
  '![x](https://tracker.example/pixel.png) ![y](javascript:window.hacked=1)',
  '```"><img src=x onerror=window.hacked=1>\ncode </code></pre><script>window.hacked = 1</script>\n```',
  '| a | b |\n|---|---|\n| <script>window.hacked=1</script> | `x` |',
  '<div style="position:fixed;inset:0">covering</div>',
  '$\\href{javascript:window.hacked=1}{x}$ and $\\style{position:fixed}{y}$ and $\\text{<img src=x onerror=window.hacked=1>}$',
  '$$\\def\\a{\\a\\a}\\a$$',
].join('\n\n');

const kCode = `Here is a function that finds duplicate files.

\`\`\`python
import hashlib
from collections import defaultdict
from pathlib import Path


def duplicates(folder: str) -> list[list[Path]]:
    """Groups the files of a folder that have the same content."""
    groups = defaultdict(list)  # digest -> files
    for path in Path(folder).rglob("*"):
        if path.is_file():
            groups[hashlib.sha256(path.read_bytes()).hexdigest()].append(path)
    return [group for group in groups.values() if len(group) > 1]
\`\`\`

It reads each file once. For large trees, compare sizes first:

1. Group by \`path.stat().st_size\`, which costs no reading.
2. Hash only groups with more than one file:
   \`\`\`bash
   find . -type f -size +1M -printf '%s %p\\n' | sort -n | awk 'a[$1]++' | head --lines 20 --verbose --zero-terminated
   \`\`\`
3. Compare the bytes of equal hashes, if you **must** be sure.

> A digest of 256 bits is enough in practice.
`;

const kTable = `# Storage trees

| Property | B-tree | LSM-tree | Fractal tree | Copy-on-write B-tree | Remarks |
|:---|---:|---:|:---:|:---:|:---|
| Writes | 1.0 | **0.1** | 0.3 | 2.0 | amplification, *lower is better* |
| Reads | 1 | 2 to 10 | 1 to 2 | 1 | levels that a point lookup visits |
| Scans | fast | slower | fast | fast | LSM merges runs |
| Space | 69 % | 90 % | 85 % | 69 % | fill grade of pages, averyveryverylongwordwithoutanyplacetobreakitatallinthecell |

## When to use which

- **B-tree**: mostly reads.
- **LSM-tree**: mostly writes.
  - Tune the *compaction*.
  - Watch the tail latency.
- [ ] measure
- [x] decide

See [the paper](https://example.org/lsm) or [the survey][s].

[s]: https://example.org/survey
`;

const kMath = `The roots of $a x^2 + b x + c = 0$ are

$$x_{1,2} = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$$

- Euler: \\(e^{i\\pi} + 1 = 0\\).
- It costs $5 to $7, not more.

\\[
\\mathbf{A} = \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}, \\qquad
\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}, \\qquad \\sum_{n=1}^{\\infty} \\frac{1}{n^2} = \\frac{\\pi^2}{6}
\\]

Broken: $\\frac{1}{$ and $\\unknown{x}$.
`;

const kStory = `The lighthouse keeper wrote one line a day. Most were about the weather. Some were about ships. `;

const kArabic = `مرحبا! هذه إجابة **قصيرة** باللغة العربية، وفيها كلمة English واحدة.

1. النقطة الأولى
2. النقطة الثانية

\`\`\`c
int main(void) { return 0; }
\`\`\`
`;

const deepList = Array.from({ length: 10_000 }, (_, i) => `${' '.repeat(Math.min(2 * i, 400))}- level ${i}`).join('\n');
const deepMarkers = `${'> '.repeat(10_000)}deep quote\n\n${'- '.repeat(10_000)}deep list\n\n${'*'.repeat(10_000)}a${'['.repeat(10_000)}`;

/** Parts of an answer: {content}, {reasoning}, {call: {name, arguments}}. */
export function answerFor(text, body) {
  if (body.response_format?.type === 'json_schema') return [{ content: '{"name": "Ada", "age": 36}' }];
  if (/\bhostile\b/.test(text)) return [{ content: kHostile }];
  if (/\bmegaline\b/.test(text)) return [{ content: 'x'.repeat(1 << 20), pieces: 4096 }];
  if (/\bdeep\b/.test(text)) return [{ content: `${deepList}\n\n${deepMarkers}\n`, pieces: 1 << 14 }];
  if (/\bcode\b/i.test(text)) return [{ content: kCode }];
  if (/\bmath\b/i.test(text)) return [{ content: kMath }];
  if (/\btable\b/i.test(text)) return [{ content: kTable }];
  if (/\blong\b/i.test(text))
    return [{ content: Array.from({ length: 40 }, (_, i) => `## Part ${i + 1}\n\n${kStory.repeat(6)}\n\n`).join('') }];
  if (/[\u0600-\u06ff]/.test(text)) return [{ content: kArabic }];
  if (/\bthink\b/i.test(text)) {
    return [
      {
        reasoning:
          'The user wants to know something. First I look at the question.\n\nThen I consider the answer from two sides.',
      },
      { content: 'The answer is **42**. It was found after some thought.' },
    ];
  }
  if (/\btool\b/i.test(text) && body.tools) {
    return [
      { content: 'I look at the weather.' },
      { call: { name: body.tools[0].function.name, arguments: '{"city": "Freiburg", "unit": "celsius"}' } },
    ];
  }
  return [{ content: `You said: ${text.slice(0, 200)}. This is a short answer. It has three sentences.` }];
}
