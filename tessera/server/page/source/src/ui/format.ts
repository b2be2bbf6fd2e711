// Numbers as people read them.
export function count(n: number): string {
  const units: [number, string][] = [
    [1e12, 'T'],
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'K'],
  ];
  const unit = units.find(([size]) => n >= size);
  return unit ? `${(n / unit[0]).toFixed(n / unit[0] < 10 ? 1 : 0)}${unit[1]}` : String(n);
}

export function bytes(n: number): string {
  const units: [number, string][] = [
    [2 ** 30, 'GiB'],
    [2 ** 20, 'MiB'],
    [2 ** 10, 'KiB'],
  ];
  const unit = units.find(([size]) => n >= size);
  return unit ? `${(n / unit[0]).toFixed(n / unit[0] < 10 ? 1 : 0)} ${unit[1]}` : `${n} B`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const rate = (perSecond: number): string =>
  perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString('en');

export const whole = (n: number): string => n.toLocaleString('en');

export const plural = (n: number, one: string, many = `${one}s`): string => `${whole(n)} ${n === 1 ? one : many}`;

export function day(time: number): string {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return 'Today';
  if (time >= midnight - 86_400_000) return 'Yesterday';
  if (time >= midnight - 6 * 86_400_000) return 'This week';
  return new Date(time).toLocaleDateString('en', { month: 'long', year: 'numeric' });
}
