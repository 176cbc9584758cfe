// Looks at the built site in Chromium, at two widths and in both themes: `make site-test`.
//
//     node scripts/site/look.cjs SITE SCREENSHOTS
//
// NODE_PATH names a folder with playwright-core and axe-core.
const fs = require("fs");
const path = require("path");
const { pathToFileURL } = require("url");
const { chromium } = require("playwright-core");

const [site, screenshots] = process.argv.slice(2).map((folder) => path.resolve(folder));
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const NARROW = 390;
const WIDTHS = [NARROW, 1280];
const SCHEMES = ["light", "dark"];
const HEIGHT = 900;
// The front page, pages with long tables, pictures and code, and a file that became a page.
const KINDS = [
    "index",
    "docs/configuration",
    "docs/log-lines",
    "docs/control",
    "docs/lifecycle",
    "docs/recipes",
    "docs/alert-rules.yaml",
];
const WORD = "poll_interval_max";

const failures = [];
let checks = 0;

function check(isSo, what) {
    checks += 1;
    if (!isSo) {
        failures.push(what);
    }
}

const address = (page) => pathToFileURL(path.join(site, `${page}.html`)).href;

// The rules of WCAG 2.1 AA that a program can check: contrast, names, focus.
async function holdToRules(tab, where) {
    await tab.screenshot({ path: path.join(screenshots, `${where.replace(/\W/g, "-")}.png`) });
    await tab.evaluate(axe);
    const levels = ["wcag2a", "wcag2aa", "wcag21aa"];
    const run = (tags) => axe.run(document, { runOnly: tags });
    const { violations } = await tab.evaluate(run, levels);
    const words = violations.map(({ id, nodes: [{ failureSummary, html }] }) =>
        `${id}: ${failureSummary}: ${html.slice(0, 200)}`);
    check(violations.length === 0, `${where}: ${words.join("\n    ")}`);
}

async function search(tab) {
    await tab.keyboard.press("/");
    await tab.locator("#mdbook-searchbar:focus").waitFor();
    await tab.keyboard.type(WORD);
    await tab.locator("#mdbook-searchresults a").first().waitFor();
}

async function lookAtKinds(browser) {
    for (const colorScheme of SCHEMES) {
        for (const width of WIDTHS) {
            const tab = await browser.newPage({ viewport: { width, height: HEIGHT }, colorScheme });
            for (const page of KINDS) {
                await tab.goto(address(page));
                await holdToRules(tab, `${page} ${width} ${colorScheme}`);
            }
            await search(tab);
            await holdToRules(tab, `search ${width} ${colorScheme}`);
            await tab.close();
        }
    }
}

// Tables, code and pictures may scroll sideways in their boxes, and no page as a whole.
async function lookAtEachPage(browser) {
    const tab = await browser.newPage({ viewport: { width: NARROW, height: HEIGHT } });
    const files = fs.readdirSync(site, { recursive: true });
    // toc.html is the table of contents for browsers without JavaScript, in a frame of each page.
    const pages = files.filter((name) => name.endsWith(".html") && name !== "toc.html");
    check(pages.length >= 100, `the site has ${pages.length} pages`);
    for (const page of pages.map((name) => name.replace(/\.html$/, ""))) {
        await tab.goto(address(page));
        const excess = await tab.evaluate(() => {
            const { scrollWidth, clientWidth } = document.documentElement;
            return scrollWidth - clientWidth;
        });
        check(excess === 0, `${page} is ${excess} px wider than a screen of ${NARROW} px`);
    }
    await tab.close();
}

async function useKeyboard(browser) {
    const tab = await browser.newPage({ viewport: { width: WIDTHS[1], height: HEIGHT } });
    await tab.goto(address("docs/control"));
    await tab.keyboard.press("Tab");
    const focused = await tab.evaluate(() => document.activeElement.id);
    check(focused === "skip-link", `the first Tab reaches ${focused}, not the skip link`);
    const box = await tab.locator("#skip-link").boundingBox();
    check(box.x >= 0 && box.y >= 0, `the skip link is out of view: ${JSON.stringify(box)}`);
    await tab.keyboard.press("Enter");
    await tab.keyboard.press("Tab");
    const isInText = await tab.evaluate(() => document.activeElement.closest("main") !== null);
    check(isInText, "Tab behind the skip link leaves the text of the page");
    const toggle = tab.locator("#mdbook-sidebar-toggle");
    await toggle.focus();
    await tab.keyboard.press("Enter");
    check(await toggle.getAttribute("aria-expanded") === "false", "Enter closes no sidebar");
    await tab.goto(address("index"));
    await search(tab);
    await tab.keyboard.press("Enter");
    await tab.waitForURL(/highlight=/);
    const text = await tab.locator("main").textContent();
    check(text.includes(WORD), `the first result of the search, ${tab.url()}, lacks ${WORD}`);
    await tab.close();
}

async function main() {
    fs.mkdirSync(screenshots, { recursive: true });
    const executablePath = "/usr/bin/chromium";
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    await lookAtEachPage(browser);
    await useKeyboard(browser);
    await lookAtKinds(browser);
    await browser.close();
    failures.forEach((failure) => console.error(failure));
    console.log(`screenshots: ${screenshots}`);
    console.log(`${checks - failures.length} passed, ${failures.length} failed`);
    process.exitCode = failures.length ? 1 : 0;
}

main();
