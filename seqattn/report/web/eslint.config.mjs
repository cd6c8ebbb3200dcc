import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules/"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // The limits of the Python package hold here, too.
      complexity: ["error", 15],
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", 60],
      "max-params": ["error", 8],
      // A number in a text needs no conversion.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Assertions about DOM elements and array sizes are where the type checker cannot know.
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/consistent-type-definitions": ["error", "interface"],
      "no-restricted-syntax": [
        "error",
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]", message: "Text from files goes in with textContent." },
      ],
    },
  },
  {
    files: ["tests/**"],
    rules: { "max-lines-per-function": "off" },
  },
  {
    files: ["*.mjs"],
    languageOptions: { globals: { console: "readonly", process: "readonly", URL: "readonly" } },
  },
);
