// browser.mjs - looks at pages with Chromium, without a window, by its debugging protocol over two pipes.
//   node browser.mjs check AXE.js PAGE.html...   each page, narrow and wide, light, dark and printed: what is wrong
//   node browser.mjs picture PAGE.html OUT.png WIDTH light|dark|print [SELECTOR [SCALE [HEIGHT]]]
//                                                of the page or of one element
// Needs nothing but Node.js and Chromium ($CHROMIUM, else chromium in the PATH).
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const folder = mkdtempSync(join(tmpdir(), 'eptwin-browser-'));
const chromium = spawn(process.env.CHROMIUM || 'chromium',
    ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe',
     '--disable-background-networking', '--no-first-run', `--user-data-dir=${folder}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

// ---- the protocol: JSON messages, each ended by a zero byte ----
const waiting = new Map();
let number = 0, rest = Buffer.alloc(0), session, listener = () => {};
chromium.stdio[4].on('data', data => {
    rest = Buffer.concat([rest, data]);
    for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) {
        const message = JSON.parse(rest.subarray(0, end).toString());
        if (message.id) {
            const { resolve, reject } = waiting.get(message.id);
            waiting.delete(message.id);
            if (message.error) reject(new Error(message.error.message));
            else resolve(message.result);
        } else listener(message);
    }
});
chromium.on('error', error => { console.error(`browser: ${error.message}`); process.exit(1); });

function send(method, params = {}) {
    const id = ++number;
    chromium.stdio[3].write(JSON.stringify({ id, method, params, ...(session ? { sessionId: session } : {}) }) + '\0');
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

async function evaluate(expression) {
    const result = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (result.exceptionDetails) throw new Error(result.exceptionDetails.exception?.description || 'exception');
    return result.result.value;
}

async function attach() {
    const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
    session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await send(`${domain}.enable`);
}

// Opens a page; returns what it complained of.  Whatever it fetches beside itself is a complaint.
async function open(page, width, scheme, scale = 1) {
    const url = pathToFileURL(resolve(page)).href, complaints = [];
    await send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: scale, mobile: false });
    await send('Emulation.setEmulatedMedia', {
        media: scheme === 'print' ? 'print' : '',
        features: [{ name: 'prefers-color-scheme', value: scheme === 'dark' ? 'dark' : 'light' }],
    });
    const loaded = new Promise(resolve => {
        listener = ({ method, params }) => {
            if (method === 'Page.loadEventFired') resolve();
            if (method === 'Runtime.exceptionThrown') complaints.push(params.exceptionDetails.text);
            if (method === 'Runtime.consoleAPICalled') complaints.push(`console.${params.type}`);
            if (method === 'Log.entryAdded') complaints.push(params.entry.text);
            if (method === 'Network.requestWillBeSent' && params.request.url !== url)
                complaints.push(`fetches ${params.request.url}`);
        };
    });
    await send('Page.navigate', { url });
    await loaded;
    return complaints;
}

// What sticks out of the window to the right, outside of boxes that scroll.
const overflow = `(() => {
    const wide = document.documentElement.clientWidth, found = [];
    if (document.documentElement.scrollWidth > wide) found.push('the page is ' + document.documentElement.scrollWidth + ' wide');
    for (const e of document.querySelectorAll('main *')) {
        if (e.closest('.scroll') && !e.classList.contains('scroll')) continue;
        const box = e.getBoundingClientRect();
        if (box.right > wide + 1 && box.width) found.push(e.tagName + ' ' + (e.textContent || '').slice(0, 40));
    }
    return found.slice(0, 5);
})()`;

// Texts of drawings that are cut off, lie on each other, or are crossed by a line or a bar's edge.
const crossings = `(() => {
    const found = [], over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    for (const svg of document.querySelectorAll('svg')) {
        const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')].map(e => [e, e.getBoundingClientRect()]);
        if (!frame.width) continue;
        // A machine's parts hold their names, and its links are slanted: of these, texts that lie on each other.
        const lines = svg.classList.contains('machine') ? [] : [...svg.querySelectorAll('line,rect,polyline')].map(e => e.getBoundingClientRect());
        texts.forEach(([e, box], i) => {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1 || box.top < frame.top - 2)
                found.push('cut off: ' + e.textContent + ' in ' + svg.getAttribute('aria-label'));
            for (let k = 0; k < i; k++)
                if (over(box, texts[k][1])) found.push('on each other: ' + e.textContent + ', ' + texts[k][0].textContent);
            if (lines.some(line => line.left < box.right - 1 && line.right > box.left + 1 && line.top < box.bottom - 3 && line.bottom > box.top + 3))
                found.push('crossed: ' + e.textContent + ' in ' + svg.getAttribute('aria-label'));
        });
    }
    return [...new Set(found)].slice(0, 8);
})()`;

// Columns of tables without a single word.
const empty = `[...document.querySelectorAll('table')].flatMap(table => {
    const rows = [...table.rows].slice(1).filter(row => row.cells.length === table.rows[0].cells.length);
    return [...table.rows[0].cells].filter((head, i) => !head.textContent || (rows.length && rows.every(row => !row.cells[i].textContent)))
        .map(head => 'empty column: ' + head.textContent);
})`;

const letters = `Math.min(...[...document.querySelectorAll('svg text')].map(e => {
    const svg = e.ownerSVGElement, width = svg.getBoundingClientRect().width;
    return width ? parseFloat(getComputedStyle(e).fontSize) * width / svg.viewBox.baseVal.width : 99;
}), 99)`;

const busy = `[...document.querySelectorAll('svg text')].map(e => e.textContent.match(/^([0-9.]+) %$/)).filter(m => m && m[1] > 100).map(m => 'more than all: ' + m[0])`;

async function check(axe, pages) {
    const source = readFileSync(axe, 'utf8');
    let problems = 0;
    for (const page of pages)
        for (const scheme of ['light', 'dark', 'print'])
            for (const width of [400, 1280]) {
                const found = await open(page, width, scheme);
                const say = text => { problems++; console.log(`${page}: ${width} px, ${scheme}: ${text}`); };
                found.forEach(say);
                if (!await evaluate('document.querySelector("h1")?.getBoundingClientRect().height > 0')) say('shows nothing');
                await evaluate('document.querySelectorAll("details").forEach(e => e.open = true)');
                for (const list of [overflow, crossings, empty, busy]) (await evaluate(list)).forEach(say);
                const size = await evaluate(letters);
                if (size < 10) say(`letters of ${size.toFixed(1)} px`);
                if (scheme === 'print') continue;
                await evaluate('document.querySelectorAll("section:nth-of-type(n+2) details").forEach(e => e.open = false)');
                await evaluate(source);
                const result = JSON.parse(await evaluate('axe.run(document).then(r => JSON.stringify({ passes: r.passes.length, violations: r.violations.map(v => v.id + ": " + v.help + " (" + v.nodes.length + "; " + v.nodes[0].html.slice(0, 120) + ")") }))'));
                if (!result.passes) say('axe-core looked at nothing');
                result.violations.forEach(text => say(`axe-core: ${text}`));
            }
    console.log(`browser: ${pages.length} pages, ${problems} problems`);
    return problems ? 1 : 0;
}

async function picture(page, out, width, scheme, selector, scale, height) {
    await open(page, Number(width), scheme, Number(scale || 1));
    const clip = await evaluate(`(() => { const b = document.querySelector(${JSON.stringify(selector || 'html')}).getBoundingClientRect();
        return { x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height, scale: 1 }; })()`);
    if (height) clip.height = Math.min(clip.height, Number(height));
    const { data } = await send('Page.captureScreenshot', { format: 'png', clip, captureBeyondViewport: true });
    writeFileSync(out, Buffer.from(data, 'base64'));
    return 0;
}

let status = 1;
try {
    const [command, ...words] = process.argv.slice(2);
    await attach();
    if (command === 'check') status = await check(words[0], words.slice(1));
    else if (command === 'picture') status = await picture(...words);
    else console.error(`browser: expected check or picture, found '${command}'`);
} catch (error) {
    console.error(`browser: ${error.message}`);
}
chromium.on('exit', () => {
    try { // its children may still be writing there
        rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    } catch (error) {
        console.error(`browser: ${error.message}`);
    }
    process.exit(status);
});
chromium.kill();
