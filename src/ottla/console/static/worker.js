// A shared worker: six tabs would otherwise use up the connections that a browser opens to one server.
import { EventStream } from "./stream.js";

const ports = new Map(); // port -> page
const stream = new EventStream((name, told) => {
  for (const [port, page] of ports)
    if (!told.page || told.page === page) port.postMessage({ name, told });
});

self.addEventListener("connect", (event) => {
  const port = event.ports[0];
  port.addEventListener("message", ({ data }) => {
    if (data.page) { ports.set(port, data.page); stream.add(data.page, data.csrf); }
    else if (ports.has(port)) { stream.remove(ports.get(port)); ports.delete(port); port.close(); }
  });
  port.start();
});
