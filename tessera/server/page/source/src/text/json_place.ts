// The place of the first mistake in a JSON text. Browsers word the errors of JSON.parse differently and often leave the
// place out, so this reads the text once more, token by token and without recursion.

const kSpace = /[ \t\n\r]*/y;
const kString = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const kScalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** The offset of the first character that cannot belong to a JSON value; the text's length where it ends too early. */
export function mistakeIn(text: string): number {
  const closers: string[] = []; // of the objects and lists that are open
  let at = 0;
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  const skipText = (wanted: string): boolean => {
    skip(kSpace);
    if (!text.startsWith(wanted, at)) return false;
    at += wanted.length;
    return true;
  };
  const key = () => (skip(kSpace), skip(kString)) && skipText(':');

  for (;;) {
    // A value begins here.
    if (skipText('{')) {
      closers.push('}');
      if (!skipText('}')) {
        if (!key()) return at;
        continue;
      }
      closers.pop();
    } else if (skipText('[')) {
      closers.push(']');
      if (!skipText(']')) continue;
      closers.pop();
    } else if (!skip(kString) && !skip(kScalar)) {
      return at;
    }
    // A value has ended: close what ends with it, up to a comma.
    while (closers.length > 0 && skipText(closers.at(-1)!)) closers.pop();
    skip(kSpace);
    if (closers.length === 0 || !skipText(',')) return at;
    if (closers.at(-1) === '}' && !key()) return at;
  }
}
