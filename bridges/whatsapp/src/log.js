// The log: lines on standard error. A line has a constant text and a few facts that are neither
// secrets nor texts of messages.

const FACT_LENGTH = 200;

// Returns a text of an error that can be logged: its first line, cut, without control characters.
export function describe(error) {
  const text = String(error?.message ?? error).split('\n', 1)[0];
  return text.replace(/[\u0000-\u001f\u007f]/g, ' ').slice(0, FACT_LENGTH);
}

export function stderrLog(stream = process.stderr) {
  const write = (level, text, facts = {}) => {
    stream.write(`${JSON.stringify({ time: new Date().toISOString(), level, text, ...facts })}\n`);
  };
  return {
    info: (text, facts) => write('info', text, facts),
    warn: (text, facts) => write('warn', text, facts),
    error: (text, facts) => write('error', text, facts),
  };
}

export const silentLog = { info() {}, warn() {}, error() {} };

// Libraries print to the console, and libsignal prints whole sessions with their keys. Standard
// output carries one line of ours, so the console is closed.
export function closeConsole() {
  for (const name of ['log', 'info', 'warn', 'error', 'debug', 'trace', 'dir', 'table']) {
    console[name] = () => {};
  }
}
