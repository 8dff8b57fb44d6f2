//! How far a result is from a reference.

/// ‖out − reference‖ / ‖reference‖ over all elements.
///
/// NaN anywhere gives NaN, which no bound admits; equal infinities count as equal. A reference of zeros gives 0 if
/// `out` is zeros too, and infinity otherwise.
///
/// # Panics
/// If the lengths differ.
pub fn relative<A, B>(out: &[A], reference: &[B]) -> f64
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    assert_eq!(out.len(), reference.len(), "a result and its reference have the same length");
    let pairs = || out.iter().zip(reference).map(|(&a, &b)| (a.into(), b.into()));
    let apart = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).powi(2) };
    let difference = pairs().map(|(a, b): (f64, f64)| apart(a, b)).sum::<f64>().sqrt();
    let size = pairs().map(|(_, b)| if b.is_infinite() { 0.0 } else { b.powi(2) }).sum::<f64>().sqrt();
    if difference == 0.0 { 0.0 } else { difference / size }
}

/// The largest |out − reference|. NaN anywhere gives NaN; equal infinities count as equal.
///
/// # Panics
/// If the lengths differ.
pub fn absolute<A, B>(out: &[A], reference: &[B]) -> f64
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    assert_eq!(out.len(), reference.len(), "a result and its reference have the same length");
    let apart = out.iter().zip(reference).map(|(&a, &b)| {
        let (a, b): (f64, f64) = (a.into(), b.into());
        if a == b { 0.0 } else { (a - b).abs() }
    });
    apart.fold(0.0, |most: f64, next| if next.is_nan() || most.is_nan() { f64::NAN } else { most.max(next) })
}

/// The root of the mean of (out − reference)²: the RMSE of the FlashAttention-3 paper. NaN anywhere gives NaN; equal
/// infinities count as equal. No elements give 0.
///
/// # Panics
/// If the lengths differ.
pub fn root_mean_square<A, B>(out: &[A], reference: &[B]) -> f64
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    assert_eq!(out.len(), reference.len(), "a result and its reference have the same length");
    let squares = out.iter().zip(reference).map(|(&a, &b)| {
        let (a, b): (f64, f64) = (a.into(), b.into());
        if a == b { 0.0 } else { (a - b).powi(2) }
    });
    (squares.sum::<f64>() / out.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_plain_numbers() {
        assert_eq!(relative(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(relative(&[3.0, 4.5], &[3.0, 4.0]), 0.1);
        assert_eq!(absolute(&[1.0_f32, 4.5], &[2.0, 4.0]), 1.0);
        assert_eq!(root_mean_square(&[1.0_f32, 7.0, 4.0, 0.0], &[1.0, 4.0, 8.0, 0.0]), 2.5);
        assert!(root_mean_square(&[f64::NAN], &[0.0]).is_nan());
    }

    #[test]
    fn a_nan_is_never_within_a_bound_and_infinities_must_agree() {
        assert!(relative(&[f64::NAN, 1.0], &[0.0, 1.0]).is_nan());
        assert!(absolute(&[f64::NAN, 1.0], &[0.0, 1.0]).is_nan());
        let none = f64::NEG_INFINITY;
        assert_eq!((relative(&[none, 1.0], &[none, 1.0]), absolute(&[none, 1.0], &[none, 1.0])), (0.0, 0.0));
        assert_eq!(
            (relative(&[-1e30, 1.0], &[none, 1.0]), absolute(&[-1e30, 1.0], &[none, 1.0])),
            (f64::INFINITY, f64::INFINITY)
        );
        assert_eq!((relative(&[0.0], &[0.0]), relative(&[1.0], &[0.0])), (0.0, f64::INFINITY));
    }
}
