// JSON as the API reads it: UTF-8 and whole characters only.

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// A loop, not a reviver: what is nested deeply must not overflow the stack.
export function parse(bytes) {
  const parsed = JSON.parse(utf8.decode(bytes));
  const left = [parsed];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === 'string' && !value.isWellFormed()) throw new SyntaxError('half a character');
    if (value !== null && typeof value === 'object') left.push(...Object.keys(value), ...Object.values(value));
  }
  return parsed;
}

export const isObject = (value) => Object.prototype.toString.call(value) === '[object Object]';
