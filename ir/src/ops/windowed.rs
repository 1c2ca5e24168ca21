//! The arithmetic of sliding windows.

use super::read::sized;
use crate::attr::WindowDim;

/// Number of window positions over a dimension of this size.
pub(crate) fn window_size(size: i64, dim: &WindowDim) -> Result<i64, String> {
    if dim.size < 0 || dim.stride < 1 || dim.lhs_dilate < 1 || dim.rhs_dilate < 1 || size < 0 {
        return Err(format!(
            "a window needs a size, a stride and dilations of at least 1, got size {} stride {} lhs_dilate {} rhs_dilate {}",
            dim.size, dim.stride, dim.lhs_dilate, dim.rhs_dilate
        ));
    }
    let padded = dilated(size, dim.lhs_dilate)
        .and_then(|size| size.checked_add(dim.pad_low)?.checked_add(dim.pad_high));
    let (padded, window) = (sized(padded)?, sized(dilated(dim.size, dim.rhs_dilate))?);
    Ok(if padded == 0 || window > padded { 0 } else { (padded - window) / dim.stride + 1 })
}

/// Extent of `size` elements that are `dilation` apart.
fn dilated(size: i64, dilation: i64) -> Option<i64> {
    if size == 0 { Some(0) } else { (size - 1).checked_mul(dilation)?.checked_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_window_positions() {
        let dim = WindowDim { size: 3, stride: 2, pad_low: 1, pad_high: 1, ..WindowDim::default() };
        assert_eq!(window_size(7, &dim), Ok(4));
        assert_eq!(window_size(0, &WindowDim { size: 3, ..WindowDim::default() }), Ok(0));
        assert_eq!(window_size(4, &WindowDim { size: 3, lhs_dilate: 2, ..WindowDim::default() }), Ok(5));
        assert!(window_size(i64::MAX, &WindowDim { lhs_dilate: 2, ..WindowDim::default() }).is_err());
        assert!(window_size(2, &WindowDim { pad_low: -3, ..WindowDim::default() }).is_err());
    }
}
