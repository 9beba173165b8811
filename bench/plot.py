"""A bar chart as SVG, without a plotting library."""
from html import escape


def bar_chart(title, bars):
    """bars: (label, value) pairs, drawn from top to bottom."""
    row, label_width, width = 28, 230, 760
    height = 50 + row * len(bars)
    largest = max((v for _, v in bars if v == v), default=1) or 1
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="12" y="24" font-size="15">{escape(title)}</text>']
    for i, (label, value) in enumerate(bars):
        y = 40 + i * row
        length = (width - label_width - 90) * (value / largest if value == value else 0)
        colour = '#2b6cb0' if label.startswith('corehttpd') else '#999' if label == 'floor' else '#c9a227'
        parts.append(f'<text x="{label_width - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>'
                     f'<rect x="{label_width}" y="{y}" width="{length:.1f}" height="20" fill="{colour}"/>'
                     f'<text x="{label_width + length + 6:.1f}" y="{y + 15}">{value:.2f}</text>')
    parts.append('</svg>')
    return '\n'.join(parts) + '\n'
