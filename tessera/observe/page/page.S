// The files of the graph page, unchanged, in read-only data.
  .section .rodata
  .global tessera_page_html_begin
  .global tessera_page_html_end
tessera_page_html_begin:
  .incbin "graph.html"
tessera_page_html_end:
  .global tessera_page_css_begin
  .global tessera_page_css_end
tessera_page_css_begin:
  .incbin "graph.css"
tessera_page_css_end:
  .global tessera_page_report_begin
  .global tessera_page_report_end
tessera_page_report_begin:
  .incbin "report.js"
tessera_page_report_end:
  .global tessera_page_js_begin
  .global tessera_page_js_end
tessera_page_js_begin:
  .incbin "graph.js"
tessera_page_js_end:
  .section .note.GNU-stack, "", %progbits
