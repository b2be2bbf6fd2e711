// The build of the page. Every file of the result is fetched by URL from the same server: the policy of the server
// (Content-Security-Policy) allows no inline code or style, so nothing may be inlined here either.
import { defineConfig } from 'vite';

export default defineConfig({
  // Relative addresses, because --api-prefix may put the page below another path.
  base: './',
  build: {
    target: ['es2022', 'chrome109', 'firefox115', 'safari16'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: { page: 'index.html', sw: 'src/sw.ts' },
      output: {
        // The address of a service worker is its identity, so its name has no hash.
        entryFileNames: (chunk) => (chunk.name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js'),
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
});
