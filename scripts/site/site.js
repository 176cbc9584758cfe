// Adds to mdBook's pages: ways for a keyboard, and room in tables.
const byId = (id) => document.getElementById(id);

// The first stop of the Tab key. Without it, all chapters of the sidebar come before the text.
const skip = document.createElement("a");
skip.id = "skip-link";
skip.href = "#mdbook-content";
skip.textContent = "Skip to the page";
document.body.prepend(skip);
byId("mdbook-content").tabIndex = -1;

// mdBook's switch of the sidebar is a label, so only a mouse reaches it.
const sidebarSwitch = byId("mdbook-sidebar-toggle");
sidebarSwitch.setAttribute("role", "button");
sidebarSwitch.tabIndex = 0;
sidebarSwitch.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sidebarSwitch.click();
    }
});

// A line may break after a dot or an underscore of a name, so that the text beside it gets room.
document.querySelectorAll("td code").forEach((code) => {
    code.innerHTML = code.innerHTML.replace(/[._]/g, "$&<wbr>");
});

// The keyboard scrolls a box only if the box can have the focus.
document.querySelectorAll("pre > code, .table-wrapper, .checkbox-label").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
    }
});

// site.css makes two themes readable. The others have a contrast below 4.5 to 1.
["rust", "coal", "ayu"].forEach((theme) => byId(`mdbook-theme-${theme}`).parentElement.remove());
