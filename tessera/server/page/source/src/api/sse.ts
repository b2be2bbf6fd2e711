// Reads an event stream piece by piece and counts its bytes: after a broken connection the stream goes on from a byte,
// so each event carries the position of its end.

export interface StreamEvent {
  data: string; // empty: only a comment
  comment: string;
  end: number; // bytes of the stream up to the end of this event
}

const kLineFeed = 10;
const kReturn = 13;

export class EventReader {
  private decoder = new TextDecoder();
  private pending = new Uint8Array(0);
  private scanned = 0; // bytes of `pending` that hold no end of an event

  constructor(private position = 0) {}

  /** The events that `piece` completes. */
  push(piece: Uint8Array): StreamEvent[] {
    const joined = new Uint8Array(this.pending.length + piece.length);
    joined.set(this.pending);
    joined.set(piece, this.pending.length);
    const events: StreamEvent[] = [];
    let begin = 0;
    let i = this.scanned;
    for (; i < joined.length; ++i) {
      if (joined[i] !== kLineFeed) continue;
      const before = joined[i - 1] === kReturn ? i - 2 : i - 1; // the byte before this line end
      if (before >= begin && joined[before] !== kLineFeed) continue;
      events.push(this.parse(joined.subarray(begin, i), this.position + i + 1));
      begin = i + 1;
    }
    this.position += begin;
    this.pending = joined.slice(begin);
    this.scanned = this.pending.length;
    return events;
  }

  private parse(bytes: Uint8Array, end: number): StreamEvent {
    const event: StreamEvent = { data: '', comment: '', end };
    for (const line of this.decoder.decode(bytes).split(/\r?\n/)) {
      if (line.startsWith('data:')) event.data += (event.data && '\n') + line.slice(line[5] === ' ' ? 6 : 5);
      else if (line.startsWith(':')) event.comment += line.slice(1).trim();
    }
    return event;
  }
}
