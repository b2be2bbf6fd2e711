// Models and users can produce texts that make a Markdown parser slow or exhaust its stack: lines of a megabyte, lists
// ten thousand levels deep. guard() finds such parts, which are then shown as plain text.

export interface Piece {
  text: string;
  isPlain: boolean;
}

const kMostLine = 8 << 10; // characters of a line; inline parsing is quadratic in the worst case
const kMostParagraph = 32 << 10; // characters of lines without a blank line between them
const kMostDepth = 24; // levels of lists and quotes

/** The levels of lists and quotes that a line opens or goes on with. */
function depthOf(line: string): number {
  const lead = /^(?:[ \t]*(?:[>*+-]|\d{1,9}[.)])(?=[ \t>]|$))*[ \t]*/.exec(line.slice(0, 4096))![0];
  const markers = lead.match(/[>*+]|-|\d+[.)]/g)?.length ?? 0;
  const isItem = /^[ \t]*(?:[*+-]|\d{1,9}[.)])(?=[ \t]|$)/.test(line);
  const indent = isItem ? line.length - line.trimStart().length : 0;
  return Math.max(markers, Math.floor(indent / 2));
}

/** The pieces of a text in order; joined they are the text. */
export function guard(text: string): Piece[] {
  const pieces: Piece[] = [];
  const add = (part: string, isPlain: boolean) => {
    const last = pieces.at(-1);
    if (last?.isPlain === isPlain) last.text += part;
    else pieces.push({ text: part, isPlain });
  };
  let fence = '';
  let paragraph = 0;
  for (let begin = 0; begin < text.length;) {
    const feed = text.indexOf('\n', begin);
    const end = feed < 0 ? text.length : feed + 1;
    const line = text.slice(begin, end);
    begin = end;
    const mark = line.length > kMostLine ? undefined : /^\s*(`{3,}|~{3,})/.exec(line)?.[1];
    const isInFence = fence !== '';
    if (mark && !fence) fence = mark;
    else if (mark && mark[0] === fence[0] && mark.length >= fence.length && line.trim() === mark) fence = '';
    // Code is not parsed further, so neither its lines nor their indentation matter.
    if (isInFence) {
      add(line, false);
      continue;
    }
    paragraph = line.trim() === '' ? 0 : paragraph + line.length;
    add(line, line.length > kMostLine || paragraph > kMostParagraph || depthOf(line) > kMostDepth);
  }
  return pieces;
}
