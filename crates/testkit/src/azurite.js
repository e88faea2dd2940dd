// Asks Azurite for what tests need beside our own program: containers, many blobs, and shared access signatures. It signs by itself.
const { createHmac } = require("node:crypto");
const { request } = require("node:http");

const [, account, key, port, what, ...words] = process.argv;
const hmac = (text) => createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");

function ask(method, path, query, type) {
    const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2026-02-06" };
    if (type) headers["x-ms-blob-type"] = type;
    const named = Object.keys(headers).sort().map((name) => `${name}:${headers[name]}\n`).join("");
    const resource = `/${account}/${account}${path}${query ? "\nrestype:container" : ""}`;
    headers.authorization = `SharedKey ${account}:${hmac(`${method}${"\n".repeat(12)}${named}${resource}`)}`;
    headers["content-length"] = "0";
    const target = `/${account}${path}${query ? "?restype=container" : ""}`;
    return new Promise((done, failed) => {
        const asked = request({ host: "127.0.0.1", port, method, path: target, headers }, (answer) => {
            answer.resume();
            const fine = answer.statusCode < 300;
            answer.on("end", () => (fine ? done() : failed(new Error(`${method} ${target}: ${answer.statusCode}`))));
        });
        asked.on("error", failed);
        asked.end();
    });
}

// An account's signature for blobs, which may do what it is told for an hour.
function signature(permissions) {
    const [end, version] = [new Date(Date.now() + 3600000).toISOString().slice(0, 19) + "Z", "2022-11-02"];
    const text = [account, permissions, "b", "co", "", end, "", "https,http", version, "", ""].join("\n");
    const query = { sv: version, ss: "b", srt: "co", sp: permissions, se: end, spr: "https,http", sig: hmac(text) };
    return new URLSearchParams(query).toString();
}

async function main() {
    if (what === "signature") return console.log(signature(words[0]));
    if (what === "make") return ask("PUT", `/${words[0]}`, true);
    if (what === "remove") return ask("DELETE", `/${words[0]}`, true);
    const names = require("node:fs").readFileSync(0, "utf8").split("\n").filter((name) => name);
    for (const name of names) await ask("PUT", `/${words[0]}/${name}`, false, "BlockBlob");
}

main().catch((error) => {
    console.error(error.message);
    process.exit(1);
});
