// Starts Azurite without its client of telemetry, which takes half of the time of its start. Nothing is sent anywhere.
const Module = require("node:module");
const load = Module._load;
Module._load = (name, ...rest) => (name === "applicationinsights" ? {} : load.call(Module, name, ...rest));
require(process.argv[1]);
